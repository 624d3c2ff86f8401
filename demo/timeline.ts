import type { Instance } from "../packages/millrace/cli/api-client.ts";
import { column, paint } from "../packages/millrace/cli/terminal.ts";
import type { Step } from "./api.ts";
import { MESSAGES, WORKFLOWS } from "./job.ts";

const WIDTH = { time: 9, type: widest([...Object.keys(MESSAGES), "content.publish_to_site"]), about: 16, workflow: widest(WORKFLOWS) };
/** True for a status from which an instance continues without an operator. */
const GOES_ON: Record<Instance["status"], boolean> = {
  accepted: true,
  queued: true,
  running: true,
  waiting: true,
  paused: false,
  in_doubt: false,
  complete: false,
  errored: false,
  terminated: false,
  dead: false,
  skipped: false,
};

interface Moment {
  at: number;
  line: string;
}

export function isOpen({ status }: Instance): boolean {
  return GOES_ON[status];
}

/**
 * The keyword of an instance, for display. If the subject of an instance is an article's id, the keyword comes from the instance that wrote
 * the article.
 */
export function aboutOf(instance: Instance, all: readonly Instance[]): string {
  const writer = all.find(({ id }) => id === instance.subject) ?? instance;
  return writer.subject.split("/").at(-1) ?? writer.subject;
}

/** Compares each API result with the previous API result, and describes the changes. */
export class Timeline {
  readonly #startedAt: number;
  readonly #told = new Set<string>();

  constructor(startedAt: number) {
    this.#startedAt = startedAt;
  }

  /**
   * The changes in order of time: new instances, ended instances, and failed attempts. Failed attempts are included for the instances in
   * `stepsOf`.
   */
  news(instances: readonly Instance[], stepsOf: ReadonlyMap<string, readonly Step[]>): string[] {
    const moments: Moment[] = [];
    for (const instance of instances) {
      const about = aboutOf(instance, instances);
      if (this.#isNew(instance.id)) moments.push(this.#moment(instance.accepted_at, instance, about, paint("dim", "accepted")));
      const end = `${instance.id} ${instance.status} ${instance.updated_at}`;
      moments.push(...this.#failures(instance, about, stepsOf.get(instance.id) ?? []));
      if (!isOpen(instance) && this.#isNew(end)) moments.push(this.#moment(instance.updated_at, instance, about, endOf(instance)));
    }
    return moments.sort((one, other) => one.at - other.at).map(({ line }) => line);
  }

  #failures(instance: Instance, about: string, steps: readonly Step[]): Moment[] {
    return steps.flatMap(({ name, attempts }) =>
      attempts.flatMap(({ attempt, started_at, ended_at, error, retry_delay_ms }) => {
        if (!error || !ended_at || retry_delay_ms === null || !this.#isNew(`${instance.id} ${name} ${started_at}`)) return [];
        const words = `“${name}” failed at attempt ${attempt}; again in ${Math.round(retry_delay_ms / 1000)} s`;
        return [this.#moment(ended_at, instance, about, paint("yellow", words))];
      }),
    );
  }

  #moment(time: string, { message_type, workflow }: Instance, about: string, outcome: string): Moment {
    const at = Date.parse(time);
    const ms = `${Math.max(0, at - this.#startedAt)} ms`;
    const words = [
      paint("dim", ms.padStart(WIDTH.time)),
      column(message_type, WIDTH.type),
      paint("cyan", column(about, WIDTH.about)),
      column(workflow, WIDTH.workflow),
      outcome,
    ];
    return { at, line: words.join("  ") };
  }

  #isNew(what: string): boolean {
    return !this.#told.has(what) && this.#told.add(what).size > 0;
  }
}

function endOf({ status, error }: Instance): string {
  if (status === "complete") return paint("green", "complete");
  return paint("red", error ? `${status}: “${error.step}” failed ${error.attempts === 1 ? "once" : `${error.attempts} times`}` : status);
}

function widest(words: readonly string[]): number {
  return Math.max(...words.map(({ length }) => length));
}
