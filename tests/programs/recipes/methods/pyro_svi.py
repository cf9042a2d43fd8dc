"""SVI with two guides, NUTS, and a mixture with enumerated states."""

from recipe import run, torch
import pyro
import pyro.distributions as D
from pyro.infer import SVI, Trace_ELBO, TraceEnum_ELBO, MCMC, NUTS, Predictive, config_enumerate
from pyro.infer.autoguide import AutoNormal, AutoMultivariateNormal


PACKAGES = {"pyro-ppl": "1.9.2"}

pyro.set_rng_seed(0)
X = torch.randn(40, 3)
y = X @ torch.tensor([1.0, -2.0, 0.5]) + 0.1 * torch.randn(40)


def model(X, y=None):
    w = pyro.sample("w", D.Normal(torch.zeros(3), 1).to_event(1))
    s = pyro.sample("s", D.HalfNormal(1.0))
    with pyro.plate("d", len(X)):
        return pyro.sample("y", D.Normal(X @ w, s), obs=y)


def it():
    for G in (AutoNormal, AutoMultivariateNormal):
        pyro.clear_param_store()
        pyro.set_rng_seed(1)
        g = G(model)
        s = SVI(model, g, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
        for i in range(50):
            yield s.step(X, y)
    pyro.set_rng_seed(2)
    yield float(Predictive(model, guide=g, num_samples=20)(X)["y"].mean())
    pyro.set_rng_seed(3)
    m = MCMC(NUTS(model), num_samples=20, warmup_steps=10, disable_progbar=True)
    m.run(X, y)
    yield float(m.get_samples()["w"][0].sum())
    pyro.clear_param_store()
    pyro.set_rng_seed(0)
    data = torch.cat([torch.randn(20) - 3, torch.randn(20) + 3])

    @config_enumerate
    def mix(data):
        w = pyro.sample("w", D.Dirichlet(torch.ones(2)))
        with pyro.plate("c", 2):
            loc = pyro.sample("loc", D.Normal(0.0, 5.0))
        with pyro.plate("n", len(data)):
            z = pyro.sample("z", D.Categorical(w))
            pyro.sample("x", D.Normal(loc[z], 1.0), obs=data)

    g = AutoNormal(pyro.poutine.block(mix, expose=["w", "loc"]))
    s = SVI(mix, g, pyro.optim.Adam({"lr": 0.1}), TraceEnum_ELBO(max_plate_nesting=1))
    for i in range(30):
        yield s.step(data)


run(it())
