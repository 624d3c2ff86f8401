import { env } from "cloudflare:workers";

/** Runs a statement that the audit's triggers would refuse: a test ages rows of `actions`, or removes its own rows. */
export async function withAuditOpen(statement: string, ...params: unknown[]): Promise<void> {
  await env.DB.batch([
    env.DB.prepare("INSERT INTO millrace_audit_opened (id) VALUES (1)"),
    env.DB.prepare(statement).bind(...params),
    env.DB.prepare("DELETE FROM millrace_audit_opened"),
  ]);
}
