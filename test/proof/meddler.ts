import type { Stage, Subject } from "./stage.ts";

/** A caller of another tenant, who has all ids of a run and sends all requests. */
export class Meddler {
  readonly #stage: Stage;
  readonly #run: Subject;
  readonly #tenantId: string;
  /** The requests sent so far, so that each is sent once in each state of the run. */
  #tried = "";
  readonly problems: string[] = [];

  constructor(stage: Stage, run: Subject, tenantId: string) {
    this.#stage = stage;
    this.#run = run;
    this.#tenantId = tenantId;
  }

  async meddle(): Promise<void> {
    const { id, name } = this.#run;
    const idsOf = async (sql: string, about: string) => (await this.#stage.rows<{ id: string }>(sql, about)).map((row) => row.id);
    const [status, letters, questions, doubtful] = await Promise.all([
      idsOf("SELECT status AS id FROM millrace_instances WHERE id = ?1", id),
      idsOf("SELECT id FROM millrace_dead_letters WHERE body LIKE ?1 AND tenant_id = 'acme'", `%${name}%`),
      idsOf("SELECT id FROM millrace_approvals WHERE instance_id = ?1", id),
      idsOf("SELECT step AS id FROM millrace_inbox WHERE instance_id = ?1 AND state = 'in_doubt'", id),
    ]);
    const effects = doubtful.length > 0 ? await this.#stage.effects(id) : [];
    const doubts = effects.filter(({ state }) => state === "in_doubt").map(({ key }) => key);
    const theirs = { run: id, letters, questions, doubts };
    const now = JSON.stringify([status, theirs]);
    if (now === this.#tried) return;
    this.#tried = now;
    this.problems.push(...(await this.#stage.meddle(this.#tenantId, theirs)));
  }
}
