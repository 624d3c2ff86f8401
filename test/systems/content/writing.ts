import { introspectWorkflow } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { type Caller, callerWith, fresh, type Json, until } from "../../api/client.ts";
import { ledger } from "../../providers/embedded.ts";

/** A caller, and an article that it requested by researching a keyword that no other test uses. */
export async function asked(keyword = fresh("keyword")): Promise<Writing> {
  const caller = await callerWith();
  expect((await caller.ask(keyword)).status).toBe(202);
  return new Writing(caller, keyword);
}

/** The part of an article's prompt that no other prompt has. */
export const about = (keyword: string) => `Keyword: ${keyword}`;

/** One running article. */
export class Writing {
  constructor(
    readonly caller: Caller,
    readonly keyword: string,
  ) {}

  /** The instance that writes the article, once it has this status. */
  async reaches(status: string): Promise<Json> {
    const look = async () =>
      (await this.caller.get(`/v1/instances?workflow=generate-article&subject=acme/${this.keyword}`)).body.items ?? [];
    const [found] = await until(look, (items: Json[]) => items[0]?.status === status);
    expect(found).toMatchObject({ status });
    return found;
  }

  /** The payments for the article, by the engine's record. */
  async calls(id: string): Promise<Json[]> {
    const { body } = await this.caller.get(`/v1/instances/${id}/text-calls`);
    return body.items;
  }

  /** The payments for the article, by the writer's own ledger. */
  async charged(): Promise<{ charged: number; repeated: number }> {
    const { charged, repeated } = (await ledger({ upstream: "text", match: about(this.keyword) })).totals.text;
    return { charged, repeated };
  }

  /** The writer's requests, in order, by its own ledger. */
  async prompts(): Promise<string[]> {
    return (await ledger({ upstream: "text", match: about(this.keyword) })).calls.map(({ subject }) => subject);
  }

  async retry(id: string, from?: string): Promise<void> {
    const answer = await this.caller.post(`/v1/instances/${id}/retry`, { reason: "try once more", ...(from && { from }) });
    expect(answer.status, JSON.stringify(answer.body)).toBe(202);
  }

  /** The stored article; null when there is none. */
  article(id: string): Promise<Json> {
    return env.DB.prepare("SELECT * FROM articles WHERE id = ?1 AND tenant_id = ?2").bind(id, this.caller.tenantId).first();
  }
}

/** Instances of this test do not wait between their attempts. */
export async function hurried() {
  const introspector = await introspectWorkflow(env.GENERATE_ARTICLE);
  await introspector.modifyAll(async (instance) => {
    await instance.disableRetryDelays();
  });
  return introspector;
}

/** Instances of this test started with this recorded output of their first step. */
export async function begunWith(research: object) {
  const introspector = await introspectWorkflow(env.GENERATE_ARTICLE);
  await introspector.modifyAll(async (instance) => {
    await instance.mockStepResult({ name: "load research" }, { output: JSON.stringify(research), outputRef: null });
  });
  return introspector;
}
