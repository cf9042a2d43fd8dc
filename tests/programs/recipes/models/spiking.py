"""Spiking networks of five kinds of neurons train by surrogate gradients."""

from recipe import run, torch, train
import snntorch
from snntorch import functional, spikegen, surrogate

PACKAGES = {"snntorch": "1.0.0"}


class Net(torch.nn.Module):
    def __init__(self, neuron):
        super().__init__()
        self.linear, self.neuron = torch.nn.Linear(10, 3), neuron

    def forward(self, spikes):
        state, record = None, []
        for x in spikes:
            found = self.neuron(self.linear(x), *state) if state else self.neuron(self.linear(x))
            state = found[1:]
            record.append(found[0])
        return torch.stack(record)


def it():
    for make in (
        lambda: snntorch.Leaky(beta=0.9, spike_grad=surrogate.fast_sigmoid(slope=25)),
        lambda: snntorch.Leaky(beta=0.5, learn_beta=True, spike_grad=surrogate.atan()),
        lambda: snntorch.Synaptic(alpha=0.9, beta=0.8, spike_grad=surrogate.sigmoid()),
        lambda: snntorch.Lapicque(beta=0.9),
        lambda: snntorch.RLeaky(beta=0.9, linear_features=3),
    ):
        torch.manual_seed(0)
        neuron = make()
        if not isinstance(neuron, snntorch.RLeaky):
            neuron.init_hidden = False
        model = Net(neuron)
        batches = lambda i: (spikegen.rate(torch.rand(4, 10), num_steps=8), torch.randint(0, 3, (4,)))

        def loss(m, b):
            if hasattr(m.neuron, "reset_mem"):
                m.neuron.reset_mem()
            return functional.ce_rate_loss()(m(b[0]), b[1])

        yield from train(model, batches, loss, steps=10, lr=1e-2)


run(it())
