"""An exact and a variational Gaussian process are fitted."""

from recipe import run, torch
import gpytorch as G


PACKAGES = {"gpytorch": "1.15.2", "linear_operator": "0.6.1"}

x = torch.linspace(0, 1, 60)
y = torch.sin(x * 6.28) + 0.1 * torch.randn(60)


class M(G.models.ExactGP):
    def __init__(s, x, y, l):
        super().__init__(x, y, l)
        s.mean_module = G.means.ConstantMean()
        s.covar_module = G.kernels.ScaleKernel(G.kernels.RBFKernel() + G.kernels.MaternKernel())

    def forward(s, x):
        return G.distributions.MultivariateNormal(s.mean_module(x), s.covar_module(x))


class V(G.models.ApproximateGP):
    def __init__(s, z):
        super().__init__(
            G.variational.VariationalStrategy(s, z, G.variational.CholeskyVariationalDistribution(z.size(0)))
        )
        s.mean_module = G.means.ConstantMean()
        s.covar_module = G.kernels.ScaleKernel(G.kernels.RBFKernel())

    def forward(s, x):
        return G.distributions.MultivariateNormal(s.mean_module(x), s.covar_module(x))


def it():
    l = G.likelihoods.GaussianLikelihood()
    m = M(x, y, l)
    m.train()
    l.train()
    o = torch.optim.Adam(m.parameters(), 0.1)
    mll = G.mlls.ExactMarginalLogLikelihood(l, m)
    for i in range(50):
        o.zero_grad()
        e = -mll(m(x), y)
        e.backward()
        o.step()
        yield float(e.detach())
    m.eval()
    l.eval()
    with torch.no_grad(), G.settings.fast_pred_var():
        p = l(m(torch.linspace(0, 1, 20)))
        yield float(p.mean.abs().sum())  # means of both signs: their sum is rounding
        yield float(p.variance.sum())
    l = G.likelihoods.GaussianLikelihood()
    m = V(x[::6].clone())
    o = torch.optim.Adam([*m.parameters(), *l.parameters()], 0.05)
    mll = G.mlls.VariationalELBO(l, m, 60)
    for i in range(30):
        o.zero_grad()
        e = -mll(m(x), y)
        e.backward()
        o.step()
        yield float(e.detach())


run(it())
