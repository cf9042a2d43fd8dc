"""Checkpoints of several processes: what is written, and that it loads however tensors lie."""

import functools
import os
import pickle
import pickletools
from dataclasses import replace

import pytest
import ranks
import tessera
import tessera.distributed as dist
import tessera.distributed.checkpoint as dcp
from tessera.distributed.checkpoint import format_utils, planner_helpers
from tessera.distributed.checkpoint.filesystem import FileSystem, SerializationFormat
from tessera.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from tessera.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from tessera.distributed.checkpoint.quantized_hf_storage import QuantizedHuggingFaceStorageReader
from tessera.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from tessera.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType, AsyncSaveResponse
from tessera.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

X = tessera.arange(30.0).reshape(5, 6)


def state():
    return {"w": X.clone(), "n": {"k": 7, "t": tessera.arange(3)}, "list": [1, tessera.ones(2)], "plain": [1, "two"]}


def test_one_process_saves_and_loads(tmp_path):
    metadata = dcp.save(state(), checkpoint_id=tmp_path, no_dist=True)
    assert sorted(os.listdir(tmp_path)) == [".metadata", "__0_0.distcp"]
    assert sorted(metadata.state_dict_metadata) == ["list.0", "list.1", "n.k", "n.t", "plain", "w"]
    target = {"w": tessera.zeros(5, 6, dtype=tessera.float64), "n": {"k": 0}, "plain": None}
    memory = target["w"].data_ptr()
    dcp.load(target, checkpoint_id=tmp_path, no_dist=True)
    assert target["w"].data_ptr() == memory and tessera.equal(target["w"], X.double())
    assert target["n"] == {"k": 7} and target["plain"] == [1, "two"]


def test_metadata_names_the_classes_as_other_libraries_know_them(tmp_path):
    dcp.save(state(), checkpoint_id=tmp_path, no_dist=True)
    texts = [arg for _, arg, _ in pickletools.genops((tmp_path / ".metadata").read_bytes()) if isinstance(arg, str)]
    assert "torch.distributed.checkpoint.metadata" in texts and not any(t.startswith("tessera") for t in texts)


def test_properties_are_pickled_with_and_without_strides():
    made = TensorProperties(dtype=tessera.float16)
    assert pickle.loads(pickle.dumps(made)) == made
    newer = TensorProperties()
    newer.__setstate__((*made.__getstate__(), (3, 1)))
    assert newer == made


def test_errors_name_what_does_not_fit(tmp_path):
    dcp.save(state(), checkpoint_id=tmp_path, no_dist=True)
    cases = [({"z": tessera.ones(1)}, "Missing key"), ({"w": tessera.ones(3)}, "Size mismatch")]
    for target, text in cases:
        with pytest.raises(dcp.CheckpointException, match=text) as caught:
            dcp.load(target, checkpoint_id=tmp_path, no_dist=True)
        assert list(caught.value.failures) == [0]
    partial = {"z": tessera.zeros(1), "plain": None}
    dcp.load(partial, checkpoint_id=tmp_path, planner=dcp.DefaultLoadPlanner(allow_partial_load=True), no_dist=True)
    assert partial["plain"] == [1, "two"] and partial["z"].tolist() == [0]
    with pytest.raises(RuntimeError, match="checkpoint_id"):
        dcp.save({}, no_dist=True)
    with pytest.raises(RuntimeError, match="no path"):
        dcp.save({}, checkpoint_id="nosuch://bucket/x", no_dist=True)
    with pytest.raises(dcp.CheckpointException, match="overwrite=False"):
        dcp.save(state(), storage_writer=dcp.FileSystemWriter(tmp_path, overwrite=False), no_dist=True)
    with pytest.raises(ValueError, match="two values"):
        dcp.DefaultSavePlanner().set_up_planner({"a": {"b": 1}, "a.b": 2})


def test_a_broken_save_leaves_no_metadata(tmp_path):
    class Broken(dcp.DefaultSavePlanner):
        def resolve_data(self, write_item):
            raise OSError("the disk is full")

    with pytest.raises(dcp.CheckpointException, match="the disk is full"):
        dcp.save(state(), checkpoint_id=tmp_path, planner=Broken(), no_dist=True)
    assert ".metadata" not in os.listdir(tmp_path)


@pytest.mark.parametrize(
    "options",
    [{"single_file_per_rank": False}, {"thread_count": 3}, {"sync_files": False, "cache_staged_state_dict": True}],
)
def test_writers_options(tmp_path, options):
    dcp.save(state(), storage_writer=dcp.FileSystemWriter(tmp_path, **options), no_dist=True)
    files = len([f for f in os.listdir(tmp_path) if f.endswith(".distcp")])
    assert files == {"single_file_per_rank": 6, "thread_count": 3, "sync_files": 1}[next(iter(options))]
    target = {"w": tessera.zeros(5, 6)}
    dcp.load(target, storage_reader=dcp.FileSystemReader(tmp_path), no_dist=True)
    assert tessera.equal(target["w"], X)


def test_files_of_save_and_back(tmp_path):
    tessera.save(state(), tmp_path / "a.pt")
    format_utils.main(["torch_to_dcp", str(tmp_path / "a.pt"), str(tmp_path / "b")])
    format_utils.main(["dcp_to_torch", str(tmp_path / "b"), str(tmp_path / "c.pt")])
    back = tessera.load(tmp_path / "c.pt")
    assert tessera.equal(back["w"], X) and back["n"]["k"] == 7 and back["list"][1].tolist() == [1, 1]
    target = state()
    target["w"].zero_()
    reader = format_utils.BroadcastingTorchSaveReader(tmp_path / "a.pt")
    dcp.load(target, storage_reader=reader, planner=format_utils.DynamicMetaLoadPlanner(), no_dist=True,
             checkpoint_id=tmp_path / "a.pt")  # fmt: skip
    assert tessera.equal(target["w"], X)
    with pytest.raises(SystemExit):
        format_utils.main(["torch_to_dcp", str(tmp_path / "none.pt"), str(tmp_path / "d")])


def test_safetensors(tmp_path):
    tensors = {"a": X.clone(), "b": tessera.ones(3, dtype=tessera.bfloat16)}
    dcp.save(tensors, storage_writer=HuggingFaceStorageWriter(str(tmp_path), {"a": 1, "b": 2}), no_dist=True)
    assert sorted(os.listdir(tmp_path)) == [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    ]
    target = {"a": tessera.zeros(5, 6), "b": tessera.zeros(3, dtype=tessera.bfloat16)}
    dcp.load(target, storage_reader=HuggingFaceStorageReader(str(tmp_path)), no_dist=True)
    assert tessera.equal(target["a"], X) and target["b"].tolist() == [1, 1, 1]
    with pytest.raises(dcp.CheckpointException, match="no tensor"):
        dcp.save({"n": 3}, storage_writer=HuggingFaceStorageWriter(str(tmp_path)), no_dist=True)
    writer = dcp.FileSystemWriter(tmp_path / "s", serialization_format=SerializationFormat.SAFETENSORS)
    dcp.save(tensors, storage_writer=writer, no_dist=True)
    (tmp_path / "broken.safetensors").write_bytes(b"\x00" * 4)
    with pytest.raises(dcp.CheckpointException, match="cut"):
        dcp.load(target, storage_reader=HuggingFaceStorageReader(str(tmp_path)), no_dist=True)


def test_files_of_safetensors_load_as_others_do(tmp_path):
    state = {"x": X, "y": tessera.ones(3, dtype=tessera.bfloat16), "none": tessera.empty(0, 2)}
    dcp.save(
        state,
        storage_writer=dcp.FileSystemWriter(tmp_path, serialization_format=SerializationFormat.SAFETENSORS),
        no_dist=True,
    )
    found = {name: tessera.full_like(value, 7) for name, value in state.items()}
    dcp.load(found, checkpoint_id=tmp_path, no_dist=True)
    assert all(tessera.equal(found[name], value) for name, value in state.items())


def test_scaled_blocks(tmp_path):
    weights = {
        "w": tessera.full((3, 4), 2.0).to(tessera.float8_e4m3fn),
        "w_scale_inv": tessera.tensor([[1.0, 10.0]] * 2),
    }
    dcp.save(weights, storage_writer=HuggingFaceStorageWriter(str(tmp_path)), no_dist=True)
    target = {"w": tessera.zeros(3, 4)}
    reader = QuantizedHuggingFaceStorageReader(str(tmp_path), block_size=2)
    dcp.load(target, storage_reader=reader, no_dist=True)
    assert target["w"].tolist() == [[2, 2, 20, 20]] * 3
    assert list(reader.read_metadata().state_dict_metadata) == ["w"]


def test_pieces_that_do_not_make_a_whole_are_refused():
    planner = dcp.DefaultSavePlanner()
    planner.set_up_planner({"w": X}, is_coordinator=True)
    plan = planner.create_local_plan()
    (item,) = plan.items
    piece = ChunkStorageMetadata(tessera.Size([0, 0]), tessera.Size([2, 6]))
    short = replace(plan, items=[replace(item, tensor_data=replace(item.tensor_data, chunk=piece))])
    with pytest.raises(ValueError, match="12 elements of 30"):
        planner.create_global_plan([short])


def test_items_read_what_pieces_share():
    chunk = lambda o, n: ChunkStorageMetadata(tessera.Size(o), tessera.Size(n))
    saved = dcp.TensorStorageMetadata(TensorProperties(), tessera.Size([5]), [chunk([0], [3]), chunk([3], [2])])
    items = planner_helpers.create_read_items_for_chunk_list("w", saved, [chunk([2], [3])])
    assert [(i.storage_offsets[0], i.dest_offsets[0], i.lengths[0]) for i in items] == [(2, 0, 1), (0, 1, 2)]
    assert items[0].dest_index == MetadataIndex("w", [2]) and items[1].storage_index.index == 1


def test_names_that_are_paths(tmp_path):
    assert FileSystem.validate_checkpoint_id(str(tmp_path / "new")) and not FileSystem.validate_checkpoint_id("s3://a")
    assert isinstance(dcp.FileSystemWriter(tmp_path), dcp.StorageWriter)


def spread(rank, world, folder):
    mesh = dist.init_device_mesh("cpu", (world,))
    pairs = dist.init_device_mesh("cpu", (world // 2, 2)) if world > 2 else mesh
    saved = {
        "s0": distribute_tensor(X, mesh, [Shard(0)]),
        "s1": distribute_tensor(X, mesh, [Shard(1)]),
        "r": distribute_tensor(X, mesh),
        "pair": distribute_tensor(X, pairs, [Shard(0), Shard(1)][: pairs.ndim]),
        "plain": X.clone(),
        "step": 3,
    }
    metadata = dcp.save(saved, checkpoint_id=folder)
    assert len(metadata.state_dict_metadata["r"].chunks) == 1 and len(metadata.state_dict_metadata["pair"].chunks) >= 2
    for place in ([Shard(0)], [Shard(1)], [Replicate()]):
        target = {
            name: distribute_tensor(tessera.zeros(5, 6), mesh, place) for name in ("s0", "s1", "r", "pair", "plain")
        }
        dcp.load(target, checkpoint_id=folder)
        assert all(tessera.equal(t.full_tensor(), X) for t in target.values())
    with pytest.raises(dcp.CheckpointException) as caught:
        dcp.load({"s0": tessera.zeros(5, 6) if rank else tessera.zeros(2)}, checkpoint_id=folder)
    assert list(caught.value.failures) == [0]
    with pytest.raises(dcp.CheckpointException, match="sums"):
        dcp.save({"p": DTensor.from_local(tessera.ones(2), mesh, [Partial()])}, checkpoint_id=folder + "x")
    parts = folder + "own"
    dcp.save({"mine": tessera.full((2,), float(rank))}, checkpoint_id=parts, use_collectives=False)
    dist.barrier()
    own = {"mine": tessera.zeros(2)}
    dcp.load(own, checkpoint_id=parts)
    assert own["mine"].tolist() == [rank, rank]
    writer = HuggingFaceStorageWriter(folder + "hf", save_distributed=True, enable_consolidation=True)
    dcp.save({"w": saved["s0"]}, storage_writer=writer)
    dist.barrier()
    for where in ("hf", "hf/sharded"):
        target = {"w": distribute_tensor(tessera.zeros(5, 6), mesh, [Shard(1)])}
        dcp.load(target, storage_reader=HuggingFaceStorageReader(folder + where))
        assert tessera.equal(target["w"].full_tensor(), X)
    live = {"w": saved["s0"].clone()}
    future = dcp.async_save(live, checkpoint_id=folder + "async")
    live["w"].zero_()
    future.result(30)
    target = {"w": tessera.zeros(5, 6)}
    dcp.load(target, checkpoint_id=folder + "async")
    assert tessera.equal(target["w"], X)
    return metadata.version


def test_tensors_of_several_processes(tmp_path):
    assert len(set(ranks.run(functools.partial(spread, folder=str(tmp_path / "c")), world=4))) == 1
    target = {"s0": tessera.zeros(5, 6), "step": 0}
    dcp.load(target, checkpoint_id=tmp_path / "c", no_dist=True)
    assert tessera.equal(target["s0"], X) and target["step"] == 3


def test_a_stager_that_copies_in_the_background(tmp_path):
    from tessera.distributed.checkpoint.staging import DefaultStager, StagingOptions

    stager = DefaultStager(StagingOptions(use_non_blocking_copy=False))
    made = dcp.async_save({"w": X}, checkpoint_id=tmp_path, async_stager=stager, no_dist=True)
    assert isinstance(made, AsyncSaveResponse)
    made.staging_completion.result(30)
    made.upload_completion.result(30)
    assert (tmp_path / ".metadata").exists()
    stager.close()


def test_a_process_of_its_own_saves(tmp_path):
    options = {"async_checkpointer_type": AsyncCheckpointerType.PROCESS, "no_dist": True}
    dcp.async_save(state(), checkpoint_id=tmp_path / "a", **options).result(60)
    target = {"w": tessera.zeros(5, 6), "n": {"k": 0}}
    dcp.load(target, checkpoint_id=tmp_path / "a", no_dist=True)
    assert tessera.equal(target["w"], X) and target["n"]["k"] == 7
    with pytest.raises(RuntimeError, match="checkpoint_id"):
        dcp.async_save(state(), **options)


def net(seed):
    tessera.manual_seed(seed)
    return tessera.nn.Sequential(tessera.nn.Linear(4, 4), tessera.nn.ReLU(), tessera.nn.Linear(4, 2))


def trained(model, cls=tessera.optim.Adam):
    optim = cls(model.parameters(), lr=0.1)
    model(tessera.ones(2, 4)).square().sum().backward()
    optim.step()
    return optim


@pytest.mark.parametrize("flat", [False, True])
def test_states_of_optimizers_go_by_names(tmp_path, flat):
    options = StateDictOptions(flatten_optimizer_state_dict=flat)
    model, other = net(0), net(1)
    optim, fresh = trained(model), tessera.optim.Adam(other.parameters(), lr=0.5)
    names = get_optimizer_state_dict(model, optim, options=options)
    assert (
        "state.0.weight.exp_avg" in names
        if flat
        else list(names["state"]) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    )
    saved = dict(zip("mo", get_state_dict(model, optim, options=options)))
    dcp.save(saved, checkpoint_id=tmp_path, no_dist=True)
    before = [p.clone() for p in other.parameters()]
    target = dict(zip("mo", get_state_dict(other, fresh, options=options)))
    assert all(tessera.equal(a, b) for a, b in zip(before, other.parameters()))
    dcp.load(target, checkpoint_id=tmp_path, no_dist=True)
    keys = set_state_dict(other, fresh, model_state_dict=target["m"], optim_state_dict=target["o"], options=options)
    assert not keys.missing_keys and fresh.param_groups[0]["lr"] == 0.1
    for p, q in zip(model.parameters(), other.parameters()):
        assert tessera.equal(p, q) and tessera.equal(optim.state[p]["exp_avg"], fresh.state[q]["exp_avg"])


def test_submodules_and_wrappers():
    model = net(0)
    part = get_model_state_dict(model, submodules={model[2]}, options=StateDictOptions(keep_submodule_prefixes=False))
    assert list(part) == ["weight", "bias"]
    wrapped = tessera.nn.Sequential()
    wrapped._orig_mod = model
    assert list(get_model_state_dict(wrapped)) == list(model.state_dict())
    model[0].weight.requires_grad_(False)
    assert "0.weight" not in get_model_state_dict(model, options=StateDictOptions(ignore_frozen_params=True))
    with pytest.raises(KeyError, match="not the model's"):
        get_optimizer_state_dict(net(1), trained(net(2)))
    with pytest.raises(ValueError, match="full_state_dict"):
        set_optimizer_state_dict(model, trained(net(0)), {}, options=StateDictOptions(broadcast_from_rank0=True))


def test_lists_with_dicts_come_apart_and_tuples_stay():
    from tessera.distributed.checkpoint._nested_dict import flatten_state_dict, unflatten_state_dict

    nested = {"a": ["x", [{"b": 1}]], "c": [1, [2]], "d": ({"e": 3}, 4)}
    flat, paths = flatten_state_dict(nested)
    assert flat == {"a.0": "x", "a.1.0.b": 1, "c": [1, [2]], "d": ({"e": 3}, 4)}
    assert paths["a.1.0.b"] == ("a", 1, 0, "b") and unflatten_state_dict(flat, paths) == nested
