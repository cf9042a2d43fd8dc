"""Trainer with a BERT: trains, evaluates, goes on from a checkpoint."""

from recipe import run, torch
import tempfile
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


PACKAGES = {"transformers": "5.24.0", "accelerate": "1.15.0"}

m = BertForSequenceClassification(
    BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, num_labels=2
    )
)
data = [{"input_ids": torch.randint(0, 100, (12,)), "labels": torch.tensor(i % 2)} for i in range(64)]
with tempfile.TemporaryDirectory() as d:
    a = TrainingArguments(
        d,
        max_steps=50,
        per_device_train_batch_size=4,
        logging_steps=5,
        save_steps=25,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        seed=0,
    )
    t = Trainer(model=m, args=a, train_dataset=data, eval_dataset=data[:16])

    def it():
        t.train()
        yield from [h["loss"] for h in t.state.log_history if "loss" in h]
        yield float(t.evaluate()["eval_loss"])
        t2 = Trainer(model=m, args=a, train_dataset=data)
        t2.args.max_steps = 55
        t2.train(resume_from_checkpoint=True)
        yield t2.state.global_step

    run(it())
