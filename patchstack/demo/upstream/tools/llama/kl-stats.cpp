#include "kl-stats.h"

#include "console.h"

#include <algorithm>
#include <cmath>
#include <numeric>

// a mean, and how sure it is
struct estimate {
    double value;
    double error;
};

static double mean(const std::vector<double> & v) {
    return std::accumulate(v.begin(), v.end(), 0.0) / double(v.size());
}

// of the means, from so many values that they may be taken for independent
static double covariance(const std::vector<double> & a, const std::vector<double> & b) {
    if (a.size() < 10) {
        return 0.0;
    }
    const double product = std::inner_product(a.begin(), a.end(), b.begin(), 0.0) / double(a.size());
    return (product - mean(a) * mean(b)) / double(a.size() - 1);
}

static estimate estimated(const std::vector<double> & v) {
    return { mean(v), std::sqrt(std::max(covariance(v, v), 0.0)) };
}

static estimate exponential(const estimate & e) {
    return { std::exp(e.value), std::exp(e.value) * e.error };
}

static estimate share(int32_t n, size_t n_all) {
    const double p = double(n) / double(n_all);
    return { 100.0 * p, 100.0 * std::sqrt(p * (1.0 - p) / double(std::max(n_all, size_t(2)) - 1)) };
}

// the root of the mean of squares, in percent
static estimate rms(const std::vector<double> & v) {
    std::vector<double> squares;
    for (const double x : v) {
        squares.push_back(x * x);
    }
    const estimate mse  = estimated(squares);
    const double   root = std::sqrt(mse.value);
    return { 100.0 * root, root > 0.0 ? 100.0 * 0.5 / root * mse.error : 0.0 };
}

static std::vector<double> sorted(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v;
}

// between the two values that are next to it
static double percentile(const std::vector<double> & ascending, double fraction) {
    const double at   = fraction * double(ascending.size() - 1);
    const size_t low  = size_t(at);
    const size_t high = std::min(low + 1, ascending.size() - 1);
    return ascending[low] + (at - double(low)) * (ascending[high] - ascending[low]);
}

static estimate log_ratio(const std::vector<double> & nll, const std::vector<double> & nll_base) {
    std::vector<double> difference;
    for (size_t i = 0; i < nll.size(); i++) {
        difference.push_back(nll[i] - nll_base[i]);
    }
    return estimated(difference);
}

void kl_stats::add(const std::vector<float> & base, const std::vector<double> & log_probs, int32_t next) {
    double sum = 0.0;
    for (size_t i = 0; i < base.size(); i++) {
        // what the file cannot hold counts as nothing
        if (base[i] > -16.0f) {
            sum += std::exp(double(base[i])) * (double(base[i]) - log_probs[i]);
        }
    }
    kld.push_back(sum);
    nll.push_back(-log_probs[size_t(next)]);
    nll_base.push_back(-double(base[size_t(next)]));
    p_diff.push_back(std::exp(-nll.back()) - std::exp(-nll_base.back()));

    const auto top      = std::max_element(log_probs.begin(), log_probs.end()) - log_probs.begin();
    const auto top_base = std::max_element(base.begin(), base.end()) - base.begin();
    n_same_top += top == top_base ? 1 : 0;
}

void kl_stats::print_line(int32_t chunk) const {
    const estimate ppl   = exponential(estimated(nll));
    const estimate ratio = log_ratio(nll, nll_base);
    const estimate kl    = estimated(kld);
    const estimate dp    = rms(p_diff);
    const estimate top   = share(n_same_top, count());

    console_print("%4d    %9.4lf ± %9.4lf    %10.5lf ± %10.5lf    %10.5lf ± %10.5lf    %6.3lf ± %6.3lf %%    "
                  "%6.3lf ± %6.3lf %%\n", int(chunk), ppl.value, ppl.error, ratio.value, ratio.error, kl.value,
                  kl.error, dp.value, dp.error, top.value, top.error);
}

void kl_stats::print_perplexity() const {
    const estimate log_ppl      = estimated(nll);
    const estimate log_ppl_base = estimated(nll_base);
    const estimate ppl          = exponential(log_ppl);
    const estimate ppl_base     = exponential(log_ppl_base);
    const estimate log_quotient = log_ratio(nll, nll_base);
    const estimate quotient     = exponential(log_quotient);

    const double cov      = covariance(nll, nll_base);
    const double ppl_cov  = ppl.value * ppl_base.value * cov;
    const double variance = ppl.error * ppl.error + ppl_base.error * ppl_base.error - 2.0 * ppl_cov;

    console_print("====== Perplexity statistics ======\n");
    console_print("Mean PPL(Q)                   : %10.6lf ± %10.6lf\n", ppl.value, ppl.error);
    console_print("Mean PPL(base)                : %10.6lf ± %10.6lf\n", ppl_base.value, ppl_base.error);
    console_print("Cor(ln(PPL(Q)), ln(PPL(base))): %6.2lf%%\n", 100.0 * cov / (log_ppl.error * log_ppl_base.error));
    console_print("Mean ln(PPL(Q)/PPL(base))     : %10.6lf ± %10.6lf\n", log_quotient.value, log_quotient.error);
    console_print("Mean PPL(Q)/PPL(base)         : %10.6lf ± %10.6lf\n", quotient.value, quotient.error);
    console_print("Mean PPL(Q)-PPL(base)         : %10.6lf ± %10.6lf\n", ppl.value - ppl_base.value,
                  std::sqrt(std::max(variance, 0.0)));
    console_print("\n");
}

void kl_stats::print_divergence() const {
    const std::vector<double> values = sorted(kld);
    const estimate average = estimated(kld);

    console_print("====== KL divergence statistics ======\n");
    console_print("Mean    KLD: %10.6lf ± %10.6lf\n", average.value, average.error);
    console_print("Maximum KLD: %10.6f\n", values.back());
    for (const double percent : { 99.9, 99.0, 95.0, 90.0 }) {
        console_print("%4.1f%%   KLD: %10.6f\n", percent, percentile(values, percent / 100.0));
    }
    console_print("Median  KLD: %10.6f\n", percentile(values, 0.5));
    for (const double percent : { 10.0, 5.0, 1.0, 0.1 }) {
        console_print("%4.1f%%   KLD: %10.6f\n", percent, percentile(values, percent / 100.0));
    }
    console_print("Minimum KLD: %10.6f\n", values.front());
    console_print("\n");
}

void kl_stats::print_probabilities() const {
    const std::vector<double> values = sorted(p_diff);
    const estimate average = estimated(p_diff);
    const estimate root    = rms(p_diff);
    const estimate top     = share(n_same_top, count());

    console_print("====== Token probability statistics ======\n");
    console_print("Mean    Δp: %6.3lf ± %5.3lf %%\n", 100.0 * average.value, 100.0 * average.error);
    console_print("Maximum Δp: %6.3lf%%\n", 100.0 * values.back());
    for (const double percent : { 99.9, 99.0, 95.0, 90.0, 75.0 }) {
        console_print("%4.1f%%   Δp: %6.3lf%%\n", percent, 100.0 * percentile(values, percent / 100.0));
    }
    console_print("Median  Δp: %6.3lf%%\n", 100.0 * percentile(values, 0.5));
    for (const double percent : { 25.0, 10.0, 5.0, 1.0, 0.1 }) {
        console_print("%4.1f%%   Δp: %6.3lf%%\n", percent, 100.0 * percentile(values, percent / 100.0));
    }
    console_print("Minimum Δp: %6.3lf%%\n", 100.0 * values.front());
    console_print("RMS Δp    : %6.3lf ± %5.3lf %%\n", root.value, root.error);
    console_print("Same top p: %6.3lf ± %5.3lf %%\n", top.value, top.error);
}
