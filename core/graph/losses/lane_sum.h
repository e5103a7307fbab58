#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

namespace muster::losses {

// A sum in double of many terms as eight running sums, which a compiler may keep in vectors: term i
// goes to sum i % 8. The order of additions depends on the number of terms only.
//
// Terms may come in pieces as long as each piece but the last has a multiple of kLanes terms.
class LaneSum {
 public:
  static constexpr std::size_t kLanes = 8;

  // Adds term(0) ... term(count - 1).
  template <typename Term>
  void add(std::size_t count, const Term& term) {
    std::array<double, kLanes> lanes = lanes_;
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
    }
    for (std::size_t lane = 0; i < count; ++i, ++lane) lanes[lane] += term(i);
    lanes_ = lanes;
  }

  double total() const {
    return ((lanes_[0] + lanes_[4]) + (lanes_[2] + lanes_[6])) +
           ((lanes_[1] + lanes_[5]) + (lanes_[3] + lanes_[7]));
  }

 private:
  std::array<double, kLanes> lanes_{};
};

template <typename Term>
double lane_sum(std::size_t count, const Term& term) {
  LaneSum sum;
  sum.add(count, term);
  return sum.total();
}

}  // namespace muster::losses
