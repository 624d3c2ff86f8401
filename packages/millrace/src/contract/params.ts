import type { Envelope } from "./envelope.ts";

/**
 * The parameters of an instance on the platform, which every replay gets: the message, and fields that only the engine sets. No message can
 * have the engine's fields, because envelopes with unknown fields are refused.
 */
export type Params = Envelope & {
  /**
   * The time of the first creation, in milliseconds. Missing if an earlier creation of the instance may have succeeded. Without this time,
   * the instance's replays check recorded results first.
   */
  created_ms?: number;
  /** The instance whose effects this instance undoes. */
  undoes?: string;
  /** The workflow to run, for a class that runs several workflows. */
  workflow?: string;
  /** The version of the workflow to which the instance is bound from its start. Missing for version 1. */
  version?: number;
  /** The cell of the instance. Missing for the first cell. */
  cell?: number;
};

/** The parts of the parameters. The envelope is not validated yet. */
export function openParams({ created_ms, undoes, workflow: _workflow, cell: _cell, version = 1, ...envelope }: Params): {
  envelope: unknown;
  version: number;
  createdAt?: Date;
  undoes?: string;
} {
  return {
    envelope,
    version,
    ...(created_ms !== undefined && { createdAt: new Date(created_ms) }),
    ...(undoes !== undefined && { undoes }),
  };
}

/** The fields of a workflow's definition that concern its versions. */
interface Versioned {
  readonly name: string;
  readonly version?: number;
  readonly previous?: Readonly<Record<number, unknown>>;
}

/** The definitions of each name. Two catalogs in one isolate, as in tests, may contain workflows of one name. */
const declared = new Map<string, Versioned[]>();

/** Registers the versions of a workflow, for functions that know only the name of the workflow. The definition calls this function. */
export function noteVersions(workflow: Versioned): void {
  declared.set(workflow.name, [...(declared.get(workflow.name) ?? []), workflow]);
}

/** The version that a new instance of the workflow runs: the newest of its definitions. */
export function currentVersion(workflow: string): number {
  return Math.max(1, ...(declared.get(workflow) ?? []).map(({ version = 1 }) => version));
}

/** True if this deployment has the function of this version of the workflow. */
export function hasVersion(workflow: string, version: number): boolean {
  const definitions = declared.get(workflow) ?? [];
  return definitions.length === 0 || definitions.some((one) => deployedVersions(one).includes(version));
}

/** The versions of a workflow that this deployment has, the present version first. */
export function deployedVersions({ version = 1, previous = {} }: Versioned): number[] {
  return [version, ...Object.keys(previous).map(Number).reverse()];
}

/** The message for an instance of a version that this deployment lacks, with the remedy. */
export function versionMissing(workflow: string, version: number): string {
  return `The instance runs version ${version} of "${workflow}", which the deployed code does not have, so no step starts. Deploy code with this version (\`previous: { ${version}: … }\`): the instance then continues by itself.`;
}
