#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <span>

#include "core/base/error.h"

namespace muster {

// "Must" in the header of the database file (PRAGMA application_id), so that another program's
// database is not taken for ours. file(1) and sqlite3 show it.
inline constexpr std::int64_t kApplicationId = 0x4D757374;

// The SQL that leads from nothing to the present schema. Script i takes version i (PRAGMA
// user_version) to i + 1. A script that was shipped is never changed; a change of the schema is a
// new one at the end.
std::span<const char* const> migrations();

// Brings a database to the version after the last script, each script in a transaction of its own
// together with its number; after an error the scripts before the failing one stay. Throws
// SQLite::Exception. Errors: kFailedPrecondition, reason "schema_newer" (a newer Muster wrote it)
// or "foreign_database" (another program did). Neither changes the file.
Status check_schema(SQLite::Database& database, std::span<const char* const> scripts);
void migrate(SQLite::Database& database, std::span<const char* const> scripts);

// PRAGMA user_version: 0 in a new file.
std::int64_t schema_version(SQLite::Database& database);

}  // namespace muster
