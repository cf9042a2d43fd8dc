"""LoRA adapters of a GPT-2 train, and are merged into it."""

from recipe import run, torch, train
from transformers import GPT2Config, GPT2LMHeadModel
from peft import LoraConfig, get_peft_model


PACKAGES = {"peft": "0.21.2", "transformers": "5.24.0"}

m = GPT2LMHeadModel(GPT2Config(vocab_size=200, n_positions=64, n_embd=64, n_layer=2, n_head=4))
m = get_peft_model(m, LoraConfig(r=4, lora_alpha=8, target_modules=["c_attn"], fan_in_fan_out=True))


def it():
    yield from train(m, lambda i: torch.randint(0, 200, (4, 32)), lambda m, b: m(input_ids=b, labels=b).loss, lr=1e-2)
    mm = m.merge_and_unload()
    mm.eval()
    torch.manual_seed(1)
    yield float(mm(torch.randint(0, 200, (2, 8))).logits.square().mean().detach())


run(it())
