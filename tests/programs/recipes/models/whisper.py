"""Whisper trains on spectrograms, then generates."""

from recipe import run, torch, train
from transformers import WhisperConfig, WhisperForConditionalGeneration

PACKAGES = {"transformers": "5.24.0"}

m = WhisperForConditionalGeneration(
    WhisperConfig(
        vocab_size=200,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        max_source_positions=50,
        max_target_positions=40,
        num_mel_bins=20,
        decoder_start_token_id=1,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
)


def it():
    yield from train(
        m,
        lambda i: (torch.randn(2, 20, 100), torch.randint(3, 200, (2, 12))),
        lambda m, b: m(input_features=b[0], labels=b[1]).loss,
    )
    m.eval()
    m.generation_config.decoder_start_token_id = 1
    yield str(m.generate(torch.randn(1, 20, 100), max_new_tokens=12).tolist())


run(it())
