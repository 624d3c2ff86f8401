import { BY_HAND, HOLDS_MS, type Order, SETTLES_MS } from "./orders.ts";
import { patiently } from "./people.ts";
import type { Requests } from "./requests.ts";
import { codeOf, pause, type Stage, type Subject } from "./stage.ts";
import { askedOf } from "./upstream.ts";
import type { World } from "./world.ts";

interface Of {
  world: World;
  requests: Requests;
  /** While no failure is injected, the engine's reaction to an operator can be measured. */
  isCalm: boolean;
}

/** A run's started effects, and the number of changes of its status. */
interface Seen {
  status: string;
  changes: number;
  begun: string[];
}

/** Operators who resume a run, or stop it: at any moment, and after it has failed. */
export class Operators {
  readonly #stage: Stage;
  readonly #run: Subject;
  readonly #world: World;
  readonly #requests: Requests;
  readonly #isCalm: boolean;
  #hasNamed = false;
  #skips = 0;
  #runs = 1;
  /** The started effects at the deadline of the last cancel. */
  #begun: ReadonlySet<string> | undefined;
  /** The violations. */
  readonly problems: string[] = [];

  constructor(stage: Stage, run: Subject, { world, requests, isCalm }: Of) {
    this.#stage = stage;
    this.#run = run;
    this.#world = world;
    this.#requests = requests;
    this.#isCalm = isCalm;
  }

  /** The number of runs that operators have started so far. */
  get runs(): number {
    return this.#runs;
  }

  /** No more failures are injected. */
  calm(): void {
    this.#runs = Number.POSITIVE_INFINITY;
  }

  /** Requests at any moment. Returns when all of them are answered, and no run is paused. */
  async act(): Promise<void> {
    const { clicks, orders } = this.#world;
    await Promise.all([
      ...clicks.map(async ({ verb, afterMs, nth }) => {
        await pause(afterMs);
        await this.#clicked(verb, nth).catch(() => undefined);
      }),
      ...orders.map((order) => this.#ordered(order)),
    ]);
  }

  async retry(reason: string, from?: string): Promise<void> {
    await this.#beginning(() => this.#requests.ask("retry", () => this.#stage.retry(this.#run.id, { reason, from })));
  }

  async undo(reason: string): Promise<void> {
    await this.#requests.ask("undo", () => this.#stage.undo(this.#run.id, reason));
  }

  /** The run has ended early: it is closed, if that is requested and nothing more is published (`isSaid`), or has to continue. */
  async goOn(isSaid: boolean): Promise<void> {
    if (this.#world.closes && isSaid) await this.#close();
    else await this.#again();
  }

  /**
   * The run has ended early. Its step is skipped, if an operator has done it by hand. Otherwise it is retried: first from a named step, or
   * from a step whose failure it has caught.
   */
  async #again(): Promise<void> {
    if (this.#skips < (this.#world.skips ?? 0) && (await this.#skip())) return;
    const named = this.#world.clicks.find(({ verb }) => verb === "retry from");
    const from = this.#hasNamed ? undefined : await this.#stepOf(named?.nth ?? 0, named ? 1 : 0).catch(() => undefined);
    this.#hasNamed = true;
    const refused = await this.retry("again", from).catch((error) => error);
    if (refused && from !== undefined) await this.retry("again").catch(() => undefined);
  }

  /** Closes the run permanently. */
  async #close(): Promise<void> {
    await this.#requests.ask("close", () => this.#stage.close(this.#run.id, "nobody needs it any more")).catch(() => undefined);
  }

  /** Sends all requests that a closed run must refuse. Returns the accepted ones. */
  async moveClosed(): Promise<string[]> {
    const { id } = this.#run;
    const tries = {
      retry: () => this.retry("second thoughts"),
      undo: () => this.undo("second thoughts"),
      cancel: () => this.#say("cancel"),
      pause: () => this.#say("pause"),
      restart: () => this.#say("restart"),
      close: () => this.#requests.ask("close", () => this.#stage.close(id, "once more")),
    };
    const done: string[] = [];
    for (const [verb, attempt] of Object.entries(tries))
      await attempt().then(
        () => done.push(`invented: a closed run accepted a ${verb}`),
        () => undefined,
      );
    return done;
  }

  /** W23: effects of a cancelled run that started after the cancel was answered; empty if the clock is inconclusive. */
  async begunBehindCancel(): Promise<string[]> {
    if (!this.#begun || !this.#isCalm) return [];
    const late = (await this.#seen()).begun.filter((one) => !this.#begun?.has(one));
    return late.length > 0 ? [`invented: ${late.join(", ")} started although the run was cancelled`] : [];
  }

  async #clicked(verb: World["clicks"][number]["verb"], nth: number): Promise<unknown> {
    switch (verb) {
      case "restart":
        return this.#stage.beginAgain(this.#run.id);
      case "undo":
        return this.undo("clicked");
      default:
        return this.retry("clicked", verb === "retry from" ? await this.#stepOf(nth) : undefined);
    }
  }

  async #ordered({ verb, afterMs, two }: Order): Promise<void> {
    await pause(afterMs);
    const say = () => this.#say(verb).catch(() => undefined);
    await Promise.all(two ? [say(), say()] : [say()]);
    if (verb === "restart" || verb === "release") return;
    await pause(SETTLES_MS);
    if (verb === "pause") return this.#hold();
    this.#begun = new Set((await this.#seen()).begun);
  }

  #say(verb: Order["verb"]): Promise<unknown> {
    const { id } = this.#run;
    const reason = "ordered";
    switch (verb) {
      case "cancel":
      case "stop":
        return this.#requests.ask("cancel", () => this.#stage.cancel(id, { reason, undo: verb === "cancel" }));
      case "pause":
        return this.#requests.ask("pause", () => this.#stage.pause(id, reason));
      case "release":
        return this.#requests.ask("release", () => this.#stage.release(id, reason));
      case "restart":
        return this.#beginning(() => this.#requests.ask("restart", () => this.#stage.passAnew(id, reason)));
    }
  }

  /** While a run is paused it starts no effect; then it is resumed, for any actor of the pause. */
  async #hold(): Promise<void> {
    const before = await this.#seen();
    if (before.status === "paused" && this.#isCalm) {
      await pause(HOLDS_MS);
      const after = await this.#seen();
      const more = without(after.begun, before.begun);
      if (after.changes === before.changes && more.length > 0)
        this.problems.push(`invented: ${more.join(", ")} started while the run was paused`);
    }
    await patiently(() => this.#requests.ask("resume", () => this.#stage.resume(this.#run.id, "it may go on")));
  }

  /** The run's started effects, without undos: from the upstream, and its own commits. */
  async #seen(): Promise<Seen> {
    const { id, name } = this.#run;
    const [row] = await this.#stage.rows<{ status: string; changes: number }>(
      `SELECT status, (SELECT count(*) FROM proof_journal WHERE instance_id = ?1 AND what = 'status') AS changes
       FROM millrace_instances WHERE id = ?1`,
      id,
    );
    const [asked, commits] = await Promise.all([askedOf(this.#stage.upstreamUrl, `${name}/`), this.#stage.commitsBegun(name)]);
    const begun = [...commits, ...asked.filter((one) => !one.endsWith("/back"))];
    return { status: row?.status ?? "", changes: row?.changes ?? 0, begun };
  }

  /** The failed step of the run is skipped, with an operator's output. Returns whether that was accepted. */
  async #skip(): Promise<boolean> {
    const [row] = await this.#stage.rows<{ label: string | null }>(
      "SELECT error->>'step' AS label FROM millrace_instances WHERE id = ?1 AND undo IS NULL",
      this.#run.id,
    );
    // Steps of an undo are not done by hand here. The run's own event has no other sender: a skipped commit writes no row.
    if (!row?.label || / said commit/.test(row.label)) return false;
    this.#skips++;
    const [, step = row.label, item] = /^(.*) \[(.*)\]$/s.exec(row.label) ?? [];
    const done = await this.#beginning(() =>
      this.#requests.ask("skip_step", () => this.#stage.skipStep(this.#run.id, { step, item, output: BY_HAND, reason: "done by hand" })),
    ).catch((error) => {
      if (codeOf(error) === undefined) throw error;
    });
    return done !== undefined;
  }

  /** The run starts before the operator gets the response. */
  async #beginning(ask: () => Promise<unknown>): Promise<unknown> {
    this.#runs++;
    return ask().catch((error) => {
      this.#runs--;
      throw error;
    });
  }

  /** The nth of the steps with a failure that the run has caught, or (`turn` 1) recorded, as the platform calls it. */
  async #stepOf(nth: number, turn = 1): Promise<string | undefined> {
    const steps = await this.#stage.rows<{ label: string }>(
      `SELECT failure.key AS label, 0 AS turn FROM millrace_inbox, json_each(millrace_inbox.caught) failure WHERE instance_id = ?1
       UNION SELECT iif(item = '', step, step || ' [' || item || ']'), 1 FROM millrace_inbox WHERE instance_id = ?1 AND position >= 0 AND ?2
       ORDER BY turn, label`,
      this.#run.id,
      turn,
    );
    return steps[nth % Math.max(1, steps.length)]?.label;
  }
}

/** The names that occur more often than before. */
function without(names: readonly string[], before: readonly string[]): string[] {
  const left = [...before];
  return names.filter((name) => {
    const at = left.indexOf(name);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
}
