#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "core/graph/op_support/loops.h"
#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// Batch normalisation (Ioffe and Szegedy 2015) by channel, as torch.nn.BatchNorm1d for [C] and
// [C, L] and BatchNorm2d for [C, H, W]: y = (x - mean) / sqrt(var + eps) * weight + bias.
//
// In training mean and var are those of the batch over examples and positions (var without
// Bessel's correction), and the running ones, parameters that are not trained, move by
//   running = (1 - momentum) running + momentum now        (var here with Bessel's correction).
// In evaluation the running ones serve. With a single value for each channel in training, which
// PyTorch refuses, y is the bias, running_var stays and the gradient by the input is 0.
//
//   "eps": 1e-5, "momentum": 0.1, "affine": true
class BatchNorm final : public Op {
 public:
  BatchNorm(OpPlan plan, std::int64_t channels, std::int64_t positions, double eps, double momentum,
            bool affine)
      : Op(std::move(plan)),
        channels_(channels),
        positions_(positions),
        eps_(eps),
        momentum_(momentum),
        affine_(affine) {}

  Json attributes() const override {
    return {{"eps", eps_}, {"momentum", momentum_}, {"affine", affine_}};
  }

  // saved: the mean of each channel, then its 1 / sqrt(var + eps).
  // scratch: for each channel weight / sqrt(var + eps) and bias.
  void forward(const Forward& io) const override {
    float* mean = io.saved.data();
    float* scale = planned(io.scratch, 2 * channels_);
    float* shift = scale + channels_;
    io.workers.for_each(channels_, channel_grain(io.batch),
                        [&](std::int64_t begin, std::int64_t end, int) {
                          if (io.training) {
                            batch_statistics(io, begin, end);
                          } else {
                            running_statistics(io, begin, end);
                          }
                          for (std::int64_t c = begin; c < end; ++c) {
                            scale[c] = mean[channels_ + c] * weight(io.parameters, c);
                            shift[c] = affine_ ? io.parameters[1].data()[c] : 0.0F;
                          }
                        });
    const std::int64_t floats = channels_ * positions_;
    const auto body = [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t n = begin; n < end; ++n) {
        const float* x = io.inputs[0].data() + n * floats;
        float* y = io.output.data() + n * floats;
        if (positions_ > 1) {
          kernels::best().normalise(channels_, positions_, mean, scale, shift, x, y);
        } else {
          for (std::int64_t c = 0; c < channels_; ++c)
            y[c] = (x[c] - mean[c]) * scale[c] + shift[c];
        }
      }
    };
    io.workers.for_each(io.batch, grain_of(floats, kCheapPart), body);
  }

  // In training, with g = dy * weight and h = (x - mean) * scale over a channel:
  // dx = scale (g - mean(g) - h mean(g h)); in evaluation dx = scale g.
  // scratch: the factors a, b, c of dx = a dy + b (x - mean) + c.
  void backward(const Backward& io) const override {
    const float* mean = io.saved.data();
    float* a = planned(io.scratch, 3 * channels_);
    float* b = a + channels_;
    float* c = b + channels_;
    io.workers.for_each(channels_, channel_grain(io.batch),
                        [&](std::int64_t begin, std::int64_t end, int) {
                          channel_gradients(io, begin, end, a, b, c);
                        });
    if (io.dinputs[0].empty()) return;
    const std::int64_t floats = channels_ * positions_;
    const auto body = [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t n = begin; n < end; ++n) {
        const float* x = io.inputs[0].data() + n * floats;
        const float* dy = io.doutput.data() + n * floats;
        float* dx = io.dinputs[0].data() + n * floats;
        if (positions_ > 1) {
          kernels::best().normalise_gradient(channels_, positions_, mean, a, b, c, x, dy, dx);
        } else {
          for (std::int64_t i = 0; i < channels_; ++i) {
            dx[i] = dy[i] * a[i] + ((x[i] - mean[i]) * b[i] + c[i]);
          }
        }
      }
    };
    io.workers.for_each(io.batch, grain_of(floats, kCheapPart), body);
  }

 private:
  static constexpr std::int64_t kColumns = 32;  // channels of one position taken at a time

  // Whole blocks of columns, so that examples are read by cache lines.
  std::int64_t channel_grain(std::int64_t batch) const {
    const std::int64_t grain = grain_of(2 * batch * positions_, kCheapPart);
    return positions_ > 1 ? grain : (grain + kColumns - 1) / kColumns * kColumns;
  }

  float weight(std::span<const std::span<const float>> parameters, std::int64_t channel) const {
    return affine_ ? parameters[0].data()[channel] : 1.0F;
  }
  std::size_t running_mean() const { return affine_ ? 2 : 0; }
  std::size_t running_var() const { return running_mean() + 1; }

  void running_statistics(const Forward& io, std::int64_t begin, std::int64_t end) const {
    for (std::int64_t c = begin; c < end; ++c) {
      const float mean = io.parameters[running_mean()].data()[c];
      const float var = io.parameters[running_var()].data()[c];
      set(io, c, static_cast<double>(mean), static_cast<double>(var));
      io.next_values[running_mean()].data()[c] = mean;
      io.next_values[running_var()].data()[c] = var;
    }
  }

  void set(const Forward& io, std::int64_t channel, double mean, double var) const {
    io.saved.data()[channel] = static_cast<float>(mean);
    io.saved.data()[channels_ + channel] = static_cast<float>(1.0 / std::sqrt(var + eps_));
  }

  void batch_statistics(const Forward& io, std::int64_t begin, std::int64_t end) const {
    const double count = static_cast<double>(io.batch) * static_cast<double>(positions_);
    for (std::int64_t from = begin; from < end; from += kColumns) {
      const std::int64_t columns = std::min(kColumns, end - from);
      double mean[kColumns] = {};
      double squares[kColumns] = {};
      if (positions_ > 1) {
        for (std::int64_t i = 0; i < columns; ++i) {
          channel_moments(io, from + i, mean[i], squares[i]);
        }
      } else {
        column_moments(io, from, columns, mean, squares);
      }
      for (std::int64_t i = 0; i < columns; ++i) {
        set(io, from + i, mean[i], squares[i] / count);
        move_running(io, from + i, mean[i], squares[i] / (count - 1), count > 1);
      }
    }
  }

  void move_running(const Forward& io, std::int64_t channel, double mean, double var,
                    bool has_var) const {
    const auto moved = [&](std::size_t parameter, double now) {
      const auto before = static_cast<double>(io.parameters[parameter].data()[channel]);
      return static_cast<float>((1 - momentum_) * before + momentum_ * now);
    };
    io.next_values[running_mean()].data()[channel] = moved(running_mean(), mean);
    io.next_values[running_var()].data()[channel] =
        has_var ? moved(running_var(), var) : io.parameters[running_var()].data()[channel];
  }

  // Planes of the examples are joined by the formula of Chan, Golub and LeVeque (1979).
  void channel_moments(const Forward& io, std::int64_t channel, double& mean,
                       double& squares) const {
    for (std::int64_t n = 0; n < io.batch; ++n) {
      double plane_mean = 0;
      double plane_squares = 0;
      kernels::best().moments(positions_,
                              io.inputs[0].data() + (n * channels_ + channel) * positions_,
                              &plane_mean, &plane_squares);
      const double part = 1.0 / static_cast<double>(n + 1);
      const double between = plane_mean - mean;
      const double joined = static_cast<double>(n) * static_cast<double>(positions_) * part;
      squares += plane_squares + between * between * joined;
      mean += between * part;
    }
  }

  void column_moments(const Forward& io, std::int64_t from, std::int64_t columns, double* mean,
                      double* squares) const {
    const float* x = io.inputs[0].data() + from;
    for (std::int64_t n = 0; n < io.batch; ++n) {
      for (std::int64_t i = 0; i < columns; ++i)
        mean[i] += static_cast<double>(x[n * channels_ + i]);
    }
    for (std::int64_t i = 0; i < columns; ++i) mean[i] /= static_cast<double>(io.batch);
    for (std::int64_t n = 0; n < io.batch; ++n) {
      for (std::int64_t i = 0; i < columns; ++i) {
        const double d = static_cast<double>(x[n * channels_ + i]) - mean[i];
        squares[i] += d * d;
      }
    }
  }

  void channel_gradients(const Backward& io, std::int64_t begin, std::int64_t end, float* a,
                         float* b, float* c) const {
    const double count = static_cast<double>(io.batch) * static_cast<double>(positions_);
    for (std::int64_t from = begin; from < end; from += kColumns) {
      const std::int64_t columns = std::min(kColumns, end - from);
      double sum_dy[kColumns] = {};
      double sum_product[kColumns] = {};  // of dy (x - mean)
      add_sums(io, from, columns, sum_dy, sum_product);
      for (std::int64_t i = 0; i < columns; ++i) {
        const std::int64_t channel = from + i;
        const auto scale = static_cast<double>(io.saved.data()[channels_ + channel]);
        // A single value is its own mean: nothing comes through.
        const double of_dy = io.training && count == 1
                                 ? 0.0
                                 : scale * static_cast<double>(weight(io.parameters, channel));
        a[channel] = static_cast<float>(of_dy);
        b[channel] = io.training
                         ? static_cast<float>(-of_dy * scale * scale * (sum_product[i] / count))
                         : 0.0F;
        c[channel] = io.training ? static_cast<float>(-of_dy * (sum_dy[i] / count)) : 0.0F;
        if (!affine_) continue;
        float& dweight = io.dparameters[0].data()[channel];
        float& dbias = io.dparameters[1].data()[channel];
        dweight = (io.accumulate ? dweight : 0.0F) + static_cast<float>(sum_product[i] * scale);
        dbias = (io.accumulate ? dbias : 0.0F) + static_cast<float>(sum_dy[i]);
      }
    }
  }

  void add_sums(const Backward& io, std::int64_t from, std::int64_t columns, double* sum_dy,
                double* sum_product) const {
    const float* mean = io.saved.data() + from;
    for (std::int64_t n = 0; n < io.batch; ++n) {
      const std::int64_t at = (n * channels_ + from) * positions_;
      const float* x = io.inputs[0].data() + at;
      const float* dy = io.doutput.data() + at;
      if (positions_ > 1) {
        float sums[2 * kColumns];
        kernels::best().normalise_sums(columns, positions_, mean, x, dy, sums);
        for (std::int64_t i = 0; i < columns; ++i) {
          sum_dy[i] += static_cast<double>(sums[2 * i]);
          sum_product[i] += static_cast<double>(sums[2 * i + 1]);
        }
      } else {
        for (std::int64_t i = 0; i < columns; ++i) {
          sum_dy[i] += static_cast<double>(dy[i]);
          sum_product[i] += static_cast<double>(dy[i] * (x[i] - mean[i]));
        }
      }
    }
  }

  std::int64_t channels_;
  std::int64_t positions_;
  double eps_;
  double momentum_;
  bool affine_;
};

}  // namespace

Created create_batch_norm(JsonObject& attributes, std::span<const Shape> inputs) {
  const double eps = attributes.number("eps", 1e-5, {1e-12, 1.0});
  const double momentum = attributes.number("momentum", 0.1, {0.0, 1.0});
  const bool affine = attributes.boolean("affine", true);
  const Shape& input = inputs[0];
  if (input.empty() || input.size() > 3) {
    return Error{ErrorCode::kInvalidArgument,
                 "batch_norm wants an input [channels], [channels, length] or [channels, height, "
                 "width], got " +
                     to_string(input)};
  }
  MUSTER_TRY(const std::int64_t size, element_count(input));
  const Shape by_channel{input[0]};
  OpPlan plan{.output = input, .saved_fixed = 2 * input[0], .scratch_fixed = 3 * input[0]};
  if (affine) {
    plan.parameters = {{.name = "weight", .shape = by_channel, .init = {.value = 1.0}},
                       {.name = "bias", .shape = by_channel, .init = {.value = 0.0}}};
  }
  plan.parameters.push_back(
      {.name = "running_mean", .shape = by_channel, .init = {.value = 0.0}, .trained = false});
  plan.parameters.push_back(
      {.name = "running_var", .shape = by_channel, .init = {.value = 1.0}, .trained = false});
  return std::make_unique<BatchNorm>(std::move(plan), input[0], size / input[0], eps, momentum,
                                     affine);
}

}  // namespace muster::ops
