"""The functions of poet/math.h: within their bounds of the exact value, right at every edge."""

from __future__ import annotations

import ctypes
import subprocess

import kernel_build as kb
import numpy as np
import pytest

#: ulps, measured over all floats by the slow test
BOUNDS = {
    "exp": 1.0,
    "log": 1.0,
    "expm1": 3.5,
    "log1p": 3.0,
    "tanh": 1.5,
    "erf": 1.5,
    "sigmoid": 3.0,
    "sqrt": 0.5,
}
MODES = [0, 1]


@pytest.fixture(scope="module", params=MODES)
def sweep(request, tmp_path_factory):
    program = tmp_path_factory.mktemp("math") / "sweep"
    build = kb.Build(request.param)
    files = [kb.ROOT / "tests/host/math_sweep.c", kb.ROOT / "firmware/kernels/math.c"]
    command = ["gcc", *build.flags(), *kb.WARNINGS, "-o", str(program)]
    subprocess.run([*command, *map(str, files), "-lm"], check=True)

    def run(step, start):
        done = subprocess.run(
            [str(program), str(step), str(start)], check=True, capture_output=True, text=True
        )
        rows = [line.split() for line in done.stdout.splitlines()]
        return {name: float(worst) for name, worst, _ in rows}, done.stdout

    return run


def test_error_over_a_dense_sample(sweep):
    worst, text = sweep(251, 17)
    assert set(worst) == set(BOUNDS)
    for name, bound in BOUNDS.items():
        assert worst[name] <= bound, text
        assert worst[name] > 0.4, "no rounding at all was seen: " + text


@pytest.mark.slow
def test_error_over_all_floats(sweep):
    worst, text = sweep(1, 0)
    assert {name for name, bound in BOUNDS.items() if not worst[name] <= bound} == set(), text


def function(name, fused):
    f = getattr(kb.library(kb.Build(fused)), name)
    f.restype, f.argtypes = ctypes.c_float, [ctypes.c_float]
    return f


def nearest(value, steps):
    """The float ``steps`` places above ``value``."""
    x = np.float32(value)
    for _ in range(abs(steps)):
        x = np.nextafter(x, np.float32(np.inf if steps > 0 else -np.inf))
    return float(x)


@pytest.mark.parametrize("fused", MODES)
def test_expf_edges(fused):
    expf = function("poet_expf", fused)
    assert expf(0.0) == 1.0
    assert expf(-0.0) == 1.0
    assert expf(np.inf) == np.inf
    assert expf(-np.inf) == 0.0
    assert np.isnan(expf(np.nan))
    assert expf(1e-45) == 1.0
    assert expf(3e38) == np.inf
    assert expf(-3e38) == 0.0
    assert 3.39e38 < expf(88.72) < np.inf
    assert expf(88.73) == np.inf
    assert expf(-103.9) == 2.0**-149  # the smallest subnormal
    assert expf(-103.98) == 0.0
    assert 0 < expf(-87.4) < 2.0**-126


@pytest.mark.parametrize("fused", MODES)
def test_logf_edges(fused):
    logf = function("poet_logf", fused)
    assert logf(1.0) == 0.0
    assert not np.signbit(logf(1.0))
    assert logf(0.0) == -np.inf
    assert logf(-0.0) == -np.inf
    assert np.isnan(logf(-1e-45))
    assert np.isnan(logf(-np.inf))
    assert np.isnan(logf(np.nan))
    assert logf(np.inf) == np.inf
    assert abs(logf(2.0**-149) - np.log(2.0**-149)) < 1e-5
    assert abs(logf(2.0**-126) - np.log(2.0**-126)) < 1e-5
    for steps in (-2, -1, 1, 2):
        x = nearest(1.0, steps)
        assert abs(logf(x) - np.log(x)) < 1e-13


@pytest.mark.parametrize("fused", MODES)
def test_expf_never_decreases(fused):
    expf = function("poet_expf", fused)
    x = np.sort(np.random.default_rng(1).uniform(-104, 88.72, 20000).astype(np.float32))
    y = np.array([expf(float(v)) for v in x])
    assert (np.diff(y) >= 0).all()


#: function -> (argument, value); signs of zero count
EDGES = {
    "poet_expm1f": [(0.0, 0.0), (-0.0, -0.0), (-np.inf, -1.0), (np.inf, np.inf), (89.5, np.inf)],
    "poet_log1pf": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -np.inf), (np.inf, np.inf), (1e-30, 1e-30)],
    "poet_tanhf": [(0.0, 0.0), (-0.0, -0.0), (np.inf, 1.0), (-np.inf, -1.0), (1e-40, 1e-40)],
    "poet_erff": [(0.0, 0.0), (-0.0, -0.0), (np.inf, 1.0), (-np.inf, -1.0), (3.95, 1.0)],
    "poet_sigmoidf": [(0.0, 0.5), (np.inf, 1.0), (-np.inf, 0.0), (-104.0, 0.0), (30.0, 1.0)],
    "poet_sqrtf": [(0.0, 0.0), (-0.0, -0.0), (4.0, 2.0), (np.inf, np.inf), (2.0**-148, 2.0**-74)],
}


@pytest.mark.parametrize("fused", MODES)
@pytest.mark.parametrize("name", EDGES)
def test_edges(name, fused):
    f = function(name, fused)
    for x, y in EDGES[name]:
        got = f(x)
        assert got == np.float32(y), (x, got)
        assert np.signbit(got) == np.signbit(y), (x, got)
    assert np.isnan(f(np.nan))


@pytest.mark.parametrize("fused", MODES)
def test_outside_of_the_domain(fused):
    assert np.isnan(function("poet_sqrtf", fused)(-1e-45))
    assert np.isnan(function("poet_log1pf", fused)(-1.001))


@pytest.mark.parametrize("fused", MODES)
@pytest.mark.parametrize("name", ["poet_tanhf", "poet_erff"])
def test_odd_functions_meet_at_the_seam(name, fused):
    f = function(name, fused)
    for seam in (0.625, 0.9375, 3.94, 9.5):
        below, above = f(nearest(seam, -1)), f(nearest(seam, 1))
        assert above >= below - 2.0**-23
        assert f(-seam) == -f(seam)
