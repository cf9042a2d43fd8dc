"""Writers of event files: `FileWriter` for single events, `SummaryWriter` for what programs want to log."""

import os
import time
import weakref

from tensorboard.compat.proto import event_pb2

from tessera.utils.tensorboard import _embedding, _graph, _images, summary
from tessera.utils.tensorboard._events import EventFile
from tessera.utils.tensorboard._values import array, file_name

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """Writes events into a file, some at a time.

    Args:
        log_dir: a folder, which is made if need be.
        max_queue: how many events wait before they are written.
        flush_secs: seconds between writes to the disk.
        filename_suffix: the end of the file's name.
    """

    def __init__(self, log_dir, max_queue=10, flush_secs=120, filename_suffix=""):
        self.event_writer = _events_in(os.fspath(log_dir))(os.fspath(log_dir), max_queue, flush_secs, filename_suffix)
        weakref.finalize(self, _finish, self.event_writer)  # a program that ends without close() loses nothing

    def get_logdir(self):
        """The folder."""
        return self.event_writer.get_logdir()

    def add_event(self, event, step=None, walltime=None):
        """Adds an Event message.

        Args:
            event: the message.
            step: its step, a number or a tensor of one element.
            walltime: its time in seconds since 1970, by default now.
        """
        self.event_writer.add_event(_stamped(event, step, walltime))

    def add_summary(self, summary, global_step=None, walltime=None):
        """Adds a Summary message."""
        self.add_event(event_pb2.Event(summary=summary), global_step, walltime)

    def add_graph(self, graph_profile, walltime=None):
        """Adds a graph: a GraphDef message, and a RunMetadata message about its nodes (a pair)."""
        graph, metadata = graph_profile
        self.add_event(event_pb2.Event(graph_def=graph.SerializeToString()), None, walltime)
        run = event_pb2.TaggedRunMetadata(tag="step1", run_metadata=metadata.SerializeToString())
        self.add_event(event_pb2.Event(tagged_run_metadata=run), None, walltime)

    def add_onnx_graph(self, graph, walltime=None):
        """Adds a GraphDef message."""
        self.add_event(event_pb2.Event(graph_def=graph.SerializeToString()), None, walltime)

    def flush(self):
        """Writes all events to the disk."""
        self.event_writer.flush()

    def close(self):
        """Writes all events and closes the file."""
        self.event_writer.close()

    def reopen(self):
        """Goes on after `close`, in another file."""
        self.event_writer.reopen()


def _events_in(folder):
    """The class of a folder's event files: TensorBoard's own knows stores in the network (s3://, gs:// ...)."""
    if "://" not in folder:
        return EventFile
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    return EventFileWriter


def _finish(event_writer):
    try:
        event_writer.close()
    except OSError:  # the folder may be gone by now
        pass


def _stamped(event, step, walltime):
    """An event with its time, by default now, and its step if it has one."""
    event.wall_time = time.time() if walltime is None else walltime
    if step is not None:
        event.step = int(step)
    return event


def _default_folder(comment):
    import socket
    from datetime import datetime

    return os.path.join("runs", f"{datetime.now().strftime('%b%d_%H-%M-%S')}_{socket.gethostname()}{comment}")


class SummaryWriter:
    """Logs scalars, pictures, texts, graphs ... for TensorBoard (`tensorboard --logdir runs`). Also a context manager.

    All methods take `global_step`, the step of the program, and `walltime`, seconds since 1970 (now by default). What
    they log may be tensors, NumPy arrays, numbers and lists. Slashes in a tag make groups.

    Args:
        log_dir: a folder; by default runs/<time>_<host><comment>.
        comment: the end of the default folder's name.
        purge_step: events from this step on, of a run that went wrong, are not shown.
        max_queue: how many events wait before they are written.
        flush_secs: seconds between writes to the disk.
        filename_suffix: the end of the files' names.
    """

    def __init__(self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""):
        self.log_dir = os.fspath(log_dir) if log_dir else _default_folder(comment)
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        self.default_bins = summary.exponential_bins()
        self.file_writer = None
        self.all_writers = None
        self._get_file_writer()

    def _writer(self, folder):
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def _get_file_writer(self):
        """The writer of the folder itself, opened anew after `close`."""
        if self.file_writer is None:
            self.file_writer = self._writer(self.log_dir)
            self.all_writers = {self.log_dir: self.file_writer}
            if self.purge_step is not None:
                restart = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
                for content in ({"file_version": "brain.Event:2"}, {"session_log": restart}):
                    self.file_writer.add_event(event_pb2.Event(**content), self.purge_step)
                self.purge_step = None
        return self.file_writer

    def _add(self, message, global_step, walltime):
        self._get_file_writer().add_summary(message, global_step, walltime)

    def get_logdir(self):
        """The folder."""
        return self.log_dir

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None, global_step=None):
        """Logs the settings of a run with its results, for the dashboard that compares runs.

        Args:
            hparam_dict: {name: bool, number, text or tensor of one element}.
            metric_dict: {tag: number}; tags should differ from those of add_scalar.
            hparam_domain_discrete: {name: the values that it may have}.
            run_name: the folder of the run below this one; by default the time.

        Raises: TypeError for what is no dict, ValueError for another kind of value.
        """
        messages = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self.log_dir, run_name or str(time.time()))
        with SummaryWriter(folder, None, None, self.max_queue, self.flush_secs, self.filename_suffix) as run:
            for message in messages:
                run._add(message, global_step, None)
            for tag, value in metric_dict.items():
                run.add_scalar(tag, value, global_step)

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        """Logs one number.

        Args:
            scalar_value: it, or a tensor of one element.
            new_style: as a tensor, which newer readers take faster.
            double_precision: as 64 bits.
        """
        message = summary.scalar(tag, scalar_value, new_style=new_style, double_precision=double_precision)
        self._add(message, global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Logs several numbers that are shown in one chart, {name: number}: each as a run of its own, in the folder
        <main_tag>_<name>.
        """
        walltime = time.time() if walltime is None else walltime
        self._get_file_writer()
        for name, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{name}")
            if folder not in self.all_writers:
                self.all_writers[folder] = self._writer(folder)
            self.all_writers[folder].add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_tensor(self, tag, tensor, global_step=None, walltime=None):
        """Logs a tensor with all of its values."""
        self._add(summary.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None):
        """Logs how values are distributed.

        Args:
            values: any shape.
            bins: "tensorflow" for bins whose width grows with the distance from zero; or limits, their number, or a
                name that numpy.histogram knows ("auto", "fd" ...).
            max_bins: join bins until there are at most so many.

        Raises: ValueError for no values.
        """
        bins = self.default_bins if isinstance(bins, str) and bins == "tensorflow" else bins
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag,
        min,
        max,
        num,
        sum,
        sum_squares,
        bucket_limits,
        bucket_counts,
        global_step=None,
        walltime=None,
    ):
        """Logs a histogram that was counted already.

        Args:
            min, max, num, sum, sum_squares: of the values.
            bucket_limits: the upper limit of each bin.
            bucket_counts: how many values lie in it.

        Raises: ValueError for limits and counts of different lengths.
        """
        message = summary.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._add(message, global_step, walltime)

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        """Logs a picture.

        Args:
            img_tensor: levels: uint8 from 0 to 255, or floating from 0 to 1.
            dataformats: the meaning of its dimensions: "CHW", "HWC", "HW", "WH".

        Raises: ValueError for dimensions that do not fit, ModuleNotFoundError without the package PIL.
        """
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"):
        """Logs several pictures, in rows of eight; `add_image` has the rest."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_image_with_boxes(
        self,
        tag,
        img_tensor,
        box_tensor,
        global_step=None,
        walltime=None,
        rescale=1,
        dataformats="CHW",
        labels=None,
    ):
        """Logs a picture with frames.

        Args:
            img_tensor, dataformats: those of `add_image`.
            box_tensor: [n, 4]: left, top, right, bottom in pixels.
            rescale: a factor for height and width.
            labels: a text, or one for each frame.
        """
        labels = [labels] if isinstance(labels, str) else labels
        message = summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels)
        self._add(message, global_step, walltime)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """Logs a figure of matplotlib, or a list of them of one size, as a picture; `close` closes them."""
        picture = _images.of_figures(figure, close)
        self._add(summary.image(tag, picture, dataformats="NCHW"[4 - picture.ndim :]), global_step, walltime)

    def add_video(self, tag, vid_tensor, global_step=None, fps=4, walltime=None):
        """Logs a film, as a GIF.

        Args:
            vid_tensor: [n, time, channels, height, width]: uint8 from 0 to 255, or floating from 0 to 1.
            fps: frames a second.
        """
        self._add(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(self, tag, snd_tensor, global_step=None, sample_rate=44100, walltime=None):
        """Logs sound.

        Args:
            snd_tensor: [samples] or [1, samples] from -1 to 1.
            sample_rate: in Hz.
        """
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """Logs a text, in Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_onnx_graph(self, prototxt):
        """Logs the graph of a model of ONNX.

        Args:
            prototxt: the path of its file.

        Raises: ModuleNotFoundError without the package onnx, FileNotFoundError.
        """
        self._get_file_writer().add_onnx_graph(_graph.of_onnx(prototxt))

    def add_graph(self, model, input_to_model=None, verbose=False, use_strict_trace=True):
        """Logs the graph of a module: the operators that a call runs, grouped by modules.

        Args:
            model: a Module.
            input_to_model: its argument, or a tuple of them. The module runs once, without gradients.
            verbose: print the nodes.
            use_strict_trace: refuse results that are no tensors and no lists or tuples of them, such as dicts.

        Raises: TypeError for what is no Module, or for refused results.
        """
        graph = _graph.of_module(model, input_to_model, use_strict_trace)
        if verbose:
            print(_graph.as_text(graph))
        self._get_file_writer().add_graph((graph, _graph.run_metadata(graph)))

    def add_embedding(self, mat, metadata=None, label_img=None, global_step=None, tag="default", metadata_header=None):
        """Logs points for the projector.

        Args:
            mat: [n, dimensions].
            metadata: n labels; with `metadata_header`, n lists of labels.
            label_img: n pictures [n, channels, height, width], floating from 0 to 1.
            metadata_header: the names of the columns.

        Raises: ValueError for other numbers of points, labels or pictures, and for points without dimensions.
        """
        folder = os.path.join(f"{0 if global_step is None else int(global_step):05}", file_name(tag))
        self._get_file_writer()
        _embedding.write(self.log_dir, folder, array(mat), metadata, label_img, metadata_header)

    def add_pr_curve(self, tag, labels, predictions, global_step=None, num_thresholds=127, weights=None, walltime=None):
        """Logs precision against recall.

        Args:
            labels: whether each element belongs to the class.
            predictions: how likely that is said to be, from 0 to 1.
            num_thresholds: how many thresholds, at most 127.
            weights: of each element.
        """
        self._add(summary.pr_curve(tag, labels, predictions, num_thresholds, weights), global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag,
        true_positive_counts,
        false_positive_counts,
        true_negative_counts,
        false_negative_counts,
        precision,
        recall,
        global_step=None,
        num_thresholds=127,
        weights=None,
        walltime=None,
    ):
        """Logs precision against recall that were counted already: values for each threshold."""
        counts = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts)
        message = summary.pr_curve_raw(tag, *counts, precision, recall, num_thresholds, weights)
        self._add(message, global_step, walltime)

    def add_custom_scalars_multilinechart(self, tags, category="default", title="untitled"):
        """Shows the scalars of several tags in one chart."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags, category="default", title="untitled"):
        """Shows a scalar within limits: three tags, of the value, the lower and the upper limit."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_custom_scalars(self, layout):
        """Says which scalars are shown in one chart. Call it once.

        Args:
            layout: {category: {chart: ["Multiline", tags] or ["Margin", [value, lower, upper]]}}.
        """
        self._add(summary.custom_scalars(layout), None, None)

    def add_mesh(self, tag, vertices, colors=None, faces=None, config_dict=None, global_step=None, walltime=None):
        """Logs points or triangles in space.

        Args:
            vertices: [batch, n, 3].
            colors: [batch, n, 3] from 0 to 255.
            faces: [batch, m, 3]: numbers of vertices.
            config_dict: how it is shown: camera, lights, material of three.js.
        """
        self._add(summary.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    def flush(self):
        """Writes all events to the disk."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self):
        """Writes all events and closes the files; what is added later goes to others."""
        for writer in (self.all_writers or {}).values():
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        self.close()
