"""Exports models of other people's packages, saves and loads them, and runs what was loaded with other sizes.

    python -m tessera tests/programs/exported.py [NAME ...]      # with an interpreter that has timm and transformers

A line of the table for each model: whether results equal eager's bit by bit at a larger batch (and sequence), how many
nodes the program has, and seconds. The last line counts; the exit status is 1 if one is not equal.
"""

import importlib
import io
import sys
import time
import traceback

import torch
from torch.export import Dim, export, load, save

CNN = """resnet18 resnet50 resnext50_32x4d seresnet18 efficientnet_b0 mobilenetv2_100 mobilenetv3_small_100 densenet121
vgg11 convnext_atto regnetx_002 regnety_002 ghostnet_050 mnasnet_050 rexnet_100 dla34 hardcorenas_a resnest14d
inception_v3 xception41 tinynet_e lcnet_050 repvgg_a0 edgenext_xx_small mobileone_s0 cspresnet50 darknet53 nfnet_f0
ese_vovnet19b_dw""".split()
SMALL_IMAGE = dict.fromkeys(("inception_v3", "xception41"), 96)
VIT = """vit_tiny_patch16_224 deit_tiny_patch16_224 mixer_s32_224 cait_xxs24_224 beit_base_patch16_224 convmixer_768_32
poolformer_s12 swin_tiny_patch4_window7_224 xcit_nano_12_p16_224 pvt_v2_b0 mobilevit_xxs levit_128s gmixer_12_224
resmlp_12_224 pit_ti_224""".split()
RESIZED = "vit_tiny deit_tiny mixer_s32 cait_xxs24 beit_base gmixer_12 resmlp_12".split()  # to images of 64 by 64
WHOLE = "swin_tiny levit_128s pit_ti".split()  # images of 224 by 224
SAME = {0: Dim("batch"), 1: Dim.DYNAMIC}  # of the inputs of one model: its two sequences have lengths of their own
BATCH, BOTH = {0: Dim.DYNAMIC}, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}

SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=100)
GQA = dict(SIZES, num_key_value_heads=2)
GPT = dict(n_embd=32, n_layer=2, n_head=4, vocab_size=100)
T5 = dict(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=100, decoder_start_token_id=0)
BART = dict(vocab_size=100, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64)  # fmt: skip
WHISPER = dict(BART, max_source_positions=50, max_target_positions=50, num_mel_bins=8, pad_token_id=0,
               bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)  # fmt: skip
VISION = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32)
# name: class, settings, what it is called with: ids; ids and mask; ids and ids of a decoder; pixels; frames
HUGGING = {
    "bert": ("BertModel", SIZES, "mask"),
    "bert_mlm": ("BertForMaskedLM", SIZES, "ids"),
    "roberta": ("RobertaModel", SIZES, "ids"),
    "distilbert": ("DistilBertModel", dict(dim=32, n_layers=2, n_heads=4, hidden_dim=64, vocab_size=100), "mask"),
    "albert": ("AlbertModel", dict(SIZES, embedding_size=16), "ids"),
    "electra": ("ElectraModel", dict(SIZES, embedding_size=16), "ids"),
    "gpt2": ("GPT2Model", GPT, "ids"),
    "gpt2_lm": ("GPT2LMHeadModel", GPT, "mask"),
    "llama": ("LlamaModel", GQA, "ids"),
    "llama_lm": ("LlamaForCausalLM", GQA, "mask"),
    "mistral": ("MistralModel", GQA, "ids"),
    "mistral_window": ("MistralForCausalLM", dict(GQA, sliding_window=4), "ids"),
    "qwen2": ("Qwen2Model", GQA, "mask"),
    "gemma": ("GemmaModel", dict(GQA, head_dim=8), "ids"),
    "phi": ("PhiModel", SIZES, "ids"),
    "gpt_neox": ("GPTNeoXModel", SIZES, "ids"),
    "opt": ("OPTModel", dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64, vocab_size=100,
                             word_embed_proj_dim=32), "mask"),
    "bloom": ("BloomModel", dict(hidden_size=32, n_layer=2, n_head=4, vocab_size=100), "mask"),
    "t5_encoder": ("T5EncoderModel", T5, "ids"),
    "t5": ("T5Model", T5, "pair"),
    "bart": ("BartModel", BART, "pair"),
    "whisper_encoder": ("WhisperEncoder", WHISPER, "mel"),
    "whisper": ("WhisperModel", WHISPER, "mel_pair"),
    "vit": ("ViTModel", VISION, "pixels"),
    "clip_text": ("CLIPTextModel", dict(SIZES, projection_dim=32, eos_token_id=99), "ids"),
    "wav2vec2": ("Wav2Vec2Model", dict(SIZES, conv_dim=(16,) * 3, conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3),
                                       num_feat_extract_layers=3, num_conv_pos_embeddings=4,
                                       num_conv_pos_embedding_groups=2), "wave"),
}  # fmt: skip


class First(torch.nn.Module):
    """A model as a function of tensors that gives its first result."""

    def __init__(self, model, names, **fixed):
        super().__init__()
        self.model, self.names, self.fixed = model, names, fixed

    def forward(self, *tensors):
        return self.model(**dict(zip(self.names, tensors)), **self.fixed)[0]


def of_timm(name):
    """(model, function of batch and sequence that makes its inputs, the dimensions that differ)."""
    import timm

    resized = any(map(name.startswith, RESIZED))
    size = 224 if any(map(name.startswith, WHOLE)) else SMALL_IMAGE.get(name, 64)
    model = timm.create_model(name, pretrained=False, **({"img_size": 64} if resized else {}))
    return model, lambda batch, length: (torch.randn(batch, 3, size, size),), (BATCH,)


def ids(batch, length):
    return torch.randint(3, 50, (batch, length))


def mask(batch, length):
    return torch.cat((torch.ones(batch, length - 1).long(), torch.zeros(batch, 1).long()), 1)


INPUTS = {
    "ids": (("input_ids",), (ids,), (BOTH,)),
    "mask": (("input_ids", "attention_mask"), (ids, mask), (BOTH, BOTH)),
    "pair": (("input_ids", "decoder_input_ids"), (ids, ids), (SAME, SAME)),
    "pixels": (("pixel_values",), (lambda b, n: torch.randn(b, 3, 32, 32),), (BATCH,)),
    "mel": (("input_features",), (lambda b, n: torch.randn(b, 8, 100),), (BATCH,)),
    "mel_pair": (
        ("input_features", "decoder_input_ids"),
        (lambda b, n: torch.randn(b, 8, 100), ids),
        ({0: SAME[0]}, SAME),
    ),
    "wave": (("input_values",), (lambda b, n: torch.randn(b, 100 * n),), (BOTH,)),
}


def of_transformers(name):
    """As of_timm."""
    class_name, settings, form = HUGGING[name]
    import transformers

    if hasattr(transformers, class_name):
        kind = getattr(transformers, class_name)
    else:
        kind = importlib.import_module("transformers.models.whisper.modeling_whisper").WhisperEncoder
    names, makers, dims = INPUTS[form]
    fixed = {"use_cache": False} if "mel" != form and form != "pixels" and form != "wave" and "clip" not in name else {}
    fixed = {} if class_name in ("BertModel", "BertForMaskedLM") or "distil" in name else fixed
    if name in ("roberta", "albert", "electra", "t5_encoder"):
        fixed = {}
    model = First(kind(kind.config_class(**settings)), names, **fixed)
    return model, lambda batch, length: tuple(make(batch, length) for make in makers), (dims,)


def checked(name):
    """(whether it is equal, the line of the table)."""
    torch.manual_seed(0)
    model, inputs, dims = (of_transformers if name in HUGGING else of_timm)(name)
    model.eval()
    start = time.perf_counter()
    program = export(model, inputs(2, 8), dynamic_shapes=dims)
    seconds = time.perf_counter() - start
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    loaded = load(file).module()
    equal = True
    for batch, length in ((3, 11), (5, 6)):
        given = inputs(batch, length)
        with torch.no_grad():
            equal = equal and torch.equal(model(*given), loaded(*given))
    return equal, f"{'equal' if equal else 'DIFFERS'} | {len(program.graph.nodes)} | {seconds:.2f}"


def main(names):
    right = 0
    names = names or [*CNN, *VIT, *HUGGING]
    print("| model | other batch, sequence | nodes | seconds of export |\n|---|---|---|---|")
    for name in names:
        try:
            equal, line = checked(name)
        except Exception as error:
            equal, line = False, f"{type(error).__name__}: {str(error)[:900]!r}"
            if len(names) == 1:
                traceback.print_exc()
        right += equal
        print(f"| {name} | {line} |", flush=True)
    print(f"{right} of {len(names)}")
    return right != len(names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
