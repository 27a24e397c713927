"""Define the causes of errors, each as a class with a permanent code.

Each code has an entry in docs/troubleshooting.md. The first two digits of a code are its area: 01 command line, 02
workspace, 03 git, 04 series, 05 engines, 06 builds, 07 gates and evidence, 08 measurements, 09 sync, 10 files, 11 CI. A
code is never reused. An error class that callers catch is defined next to the code that raises it, with a code from the
same numbering.
"""

from __future__ import annotations

from patchstack.errors import ConfigError, MissingError, NotHeldError, UsageError


class OptionConflict(UsageError):
    """Options exclude each other, or a required option is missing."""

    code = "PS0101"


class BadValue(UsageError):
    """A value has the wrong form."""

    code = "PS0102"


class AmbiguousName(UsageError):
    """Several objects match a name, or no name is given."""

    code = "PS0103"


class UnknownName(UsageError):
    """A name is not declared."""

    code = "PS0104"


class BadPath(UsageError):
    """A path does not name the required kind of file or directory."""

    code = "PS0105"


class AlreadyExists(UsageError):
    """A file or directory already exists."""

    code = "PS0106"


class InputUnreadable(UsageError):
    """An input cannot be read."""

    code = "PS0107"


class OutputUnwritable(UsageError):
    """An output cannot be written."""

    code = "PS0108"


class ReasonMissing(UsageError):
    """A required reason is missing."""

    code = "PS0109"


class NoWorkspace(UsageError):
    """No workspace was found."""

    code = "PS0201"


class WorkspaceUnusable(ConfigError):
    """A YAML file cannot be used."""

    code = "PS0202"


class WorkspaceNotChanged(ConfigError):
    """The workspace was not changed."""

    code = "PS0203"


class VariantUnusable(ConfigError):
    """A variant cannot be built."""

    code = "PS0204"


class SettingsUnusable(ConfigError):
    """Settings of gates, workloads, checks or lint cannot be used."""

    code = "PS0205"


class SettingsRefused(UsageError):
    """The settings are well formed, but no run can use them."""

    code = "PS0206"


class BadRevision(UsageError):
    """A revision does not name a commit."""

    code = "PS0301"


class ObjectUnreadable(MissingError):
    """A git object cannot be read."""

    code = "PS0302"


class NotFetchable(MissingError):
    """Commits cannot be fetched or listed."""

    code = "PS0303"


class ShallowHistory(MissingError):
    """The history is too short, because the repository is shallow."""

    code = "PS0304"


class NoCommonHistory(MissingError):
    """The fork and upstream have no common commit."""

    code = "PS0305"


class NotDescended(NotHeldError):
    """The fork is not based on the pin, or has no commits after it."""

    code = "PS0306"


class TargetNotAfterPin(UsageError):
    """The target is not after the pin."""

    code = "PS0307"


class CloneNeeded(UsageError):
    """The command needs a fork on this machine."""

    code = "PS0308"


class CloneMissing(MissingError):
    """A clone is missing, or it lacks the pin."""

    code = "PS0309"


class BranchInTheWay(UsageError):
    """A branch with this name already exists, or git cannot create it."""

    code = "PS0310"


class GitStillAtWork(MissingError):
    """git is still running, or its output is incomplete."""

    code = "PS0311"


class BadRepositoryAddress(UsageError):
    """The address does not name a repository."""

    code = "PS0318"


class NoPatches(ConfigError):
    """No patches were found."""

    code = "PS0401"


class NoSuchPatch(ConfigError):
    """No patch has this number or name."""

    code = "PS0402"


class PatchUnreadable(ConfigError):
    """The files of a series cannot be used."""

    code = "PS0403"


class OrderUnknown(MissingError):
    """The order of the patches is unknown."""

    code = "PS0404"


class LockUnusable(ConfigError):
    """The file `series.lock` cannot be used."""

    code = "PS0405"


class NotInRange(UsageError):
    """The patch or commit is not in the range."""

    code = "PS0406"


class PatchDoesNotApply(NotHeldError):
    """A patch does not apply."""

    code = "PS0407"


class NothingToCompare(MissingError):
    """No fork, lock or tree is available to compare the result with."""

    code = "PS0408"


class ExportRefused(NotHeldError):
    """The export would lose changes, is ambiguous, or would not recreate the fork."""

    code = "PS0409"


class ForkNotRecreated(NotHeldError):
    """The fork cannot be recreated."""

    code = "PS0410"


class PatchesNotConverted(NotHeldError):
    """The patches cannot be converted."""

    code = "PS0411"


class DirectoryNotPatched(UsageError):
    """The directory cannot be patched."""

    code = "PS0412"


class DirectoryRefused(NotHeldError):
    """A patch changes a path that patchstack's journal uses."""

    code = "PS0413"


class NotAMirror(ConfigError):
    """The directory is not a mirror."""

    code = "PS0414"


class BadEngineAddress(UsageError):
    """The address does not name an engine."""

    code = "PS0501"


class EngineConfigUnusable(ConfigError):
    """Docker's configuration cannot be used."""

    code = "PS0502"


class JobRefused(UsageError):
    """A job cannot be run with these settings."""

    code = "PS0503"


class UnsafeArchive(MissingError):
    """An unsafe archive was refused."""

    code = "PS0504"


class ImageNotBuilt(MissingError):
    """An image cannot be built."""

    code = "PS0505"


class JobCannotStart(MissingError):
    """A program cannot start."""

    code = "PS0506"


class GpuNotGiven(MissingError):
    """The job cannot get a GPU."""

    code = "PS0507"


class ProgramMissing(MissingError):
    """A program is not installed."""

    code = "PS0508"


class PackageMissing(MissingError):
    """A Python package is not installed."""

    code = "PS0509"


class ToolchainUnusable(MissingError):
    """The compiler or the CUDA toolkit cannot be used."""

    code = "PS0510"


class EngineRefused(MissingError):
    """The engine refused a request."""

    code = "PS0511"


class EngineNotNamed(MissingError):
    """No engine was named."""

    code = "PS0518"


class NoServersHere(MissingError):
    """The engine cannot run servers."""

    code = "PS0519"


class BuildPlanRefused(UsageError):
    """The build options cannot be used."""

    code = "PS0601"


class SourceMissing(MissingError):
    """The source of the build is missing."""

    code = "PS0602"


class BuildFailed(NotHeldError):
    """The source does not compile."""

    code = "PS0603"


class NoSuchBuild(MissingError):
    """The build does not exist."""

    code = "PS0604"


class ProvenanceUnwritable(MissingError):
    """The provenance cannot be written."""

    code = "PS0605"


class ProvenanceRefused(UsageError):
    """The provenance statement cannot be created."""

    code = "PS0606"


class ModelMissing(MissingError):
    """A model is missing."""

    code = "PS0701"


class NotInBuild(MissingError):
    """The build lacks a program."""

    code = "PS0702"


class NotRecorded(MissingError):
    """The record lacks data that a check needs."""

    code = "PS0703"


class InputMissing(MissingError):
    """An input of a gate is missing."""

    code = "PS0704"


class SuiteDamaged(ConfigError):
    """A recorded file is damaged."""

    code = "PS0705"


class NothingToRecord(NotHeldError):
    """A gate or check produced nothing that can be recorded."""

    code = "PS0706"


class ModelChanged(NotHeldError):
    """The transcript changed, and nothing shows that the model is the same."""

    code = "PS0707"


class LedgerUntrusted(ConfigError):
    """The ledger contains files that cannot be trusted."""

    code = "PS0708"


class NoSuchDecision(MissingError):
    """The decision does not exist."""

    code = "PS0709"


class SigningRefused(UsageError):
    """A decision cannot be signed."""

    code = "PS0710"


class SignersUnusable(UsageError):
    """The list of signers cannot be used."""

    code = "PS0711"


class SignersMissing(MissingError):
    """The list of signers is missing."""

    code = "PS0712"


class GpuLockUnusable(MissingError):
    """The GPU's lock cannot be used."""

    code = "PS0713"


class GpuCheckFailed(NotHeldError):
    """The GPU's lock was not released."""

    code = "PS0714"


class DecisionRefused(UsageError):
    """The decision cannot be made."""

    code = "PS0715"


class AcceptanceNotReady(MissingError):
    """A requirement of the acceptance is missing."""

    code = "PS0720"


class PromiseBroken(NotHeldError):
    """The commit breaks a check or the scope of a patch."""

    code = "PS0721"


class ComparisonDamaged(ConfigError):
    """A comparison was changed."""

    code = "PS0801"


class NoComparison(MissingError):
    """The comparison does not exist."""

    code = "PS0802"


class SidesNotComparable(UsageError):
    """The two sides of a comparison cannot be compared, or are the same."""

    code = "PS0803"


class FigureUnwritable(NotHeldError):
    """A page or plot cannot be written."""

    code = "PS0804"


class ServingRecordDamaged(NotHeldError):
    """The record of a serving run is damaged."""

    code = "PS0806"


class ServingFailed(MissingError):
    """The serving run failed."""

    code = "PS0807"


class TraceUnreadable(MissingError):
    """A log cannot be read or contains no trace."""

    code = "PS0811"


class TraceRefused(UsageError):
    """A log cannot be read with these options."""

    code = "PS0812"


class ExpectationUnusable(UsageError):
    """An expectation cannot be used."""

    code = "PS0813"


class ModelFileUnreadable(UsageError):
    """A model file cannot be read."""

    code = "PS0821"


class ModelFileMissing(MissingError):
    """A model file is missing."""

    code = "PS0822"


class CostUnknown(MissingError):
    """The model or the machine lacks data that is needed to compute the cost."""

    code = "PS0823"


class CostRefused(UsageError):
    """The cost cannot be computed with these options."""

    code = "PS0824"


class ServerAnswer(UsageError):
    """The server's response cannot be used."""

    code = "PS0825"


class ServerSilent(MissingError):
    """The server does not respond."""

    code = "PS0826"


class SyncNotReady(UsageError):
    """The current state of the sync does not allow this step."""

    code = "PS0901"


class SyncUnresolved(NotHeldError):
    """A conflict is not resolved, or the resolved patch is empty."""

    code = "PS0902"


class SyncWouldLose(NotHeldError):
    """The sync would lose work."""

    code = "PS0903"


class SyncDoesNotHold(NotHeldError):
    """A check of the sync failed, so the pin was not moved."""

    code = "PS0904"


class SyncStateUnusable(ConfigError):
    """The state of the sync cannot be used."""

    code = "PS0905"


class SyncRepositoryGone(MissingError):
    """The repository of the sync no longer exists."""

    code = "PS0906"


class Busy(UsageError):
    """Another run is in progress."""

    code = "PS1001"


class NotWritable(MissingError):
    """A file cannot be written."""

    code = "PS1002"


class NotReadable(MissingError):
    """A file cannot be read."""

    code = "PS1003"


class JournalUnusable(ConfigError):
    """The journal cannot be used."""

    code = "PS1004"


class MachineRefused(MissingError):
    """The operating system refused a request."""

    code = "PS1005"


class NoRunner(MissingError):
    """The command does not run on a CI runner."""

    code = "PS1101"


class CiInputRefused(UsageError):
    """An input of the CI action is invalid."""

    code = "PS1102"


class DemoFailed(NotHeldError):
    """The demo failed."""

    code = "PS1105"
