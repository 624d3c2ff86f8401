import { env } from "cloudflare:workers";
import { effects } from "millrace/operate";

/** An id in the form of the engine's ids. */
export function hexId(): string {
  return crypto.randomUUID().replaceAll("-", "");
}

/** A row of an instance that the platform does not have. */
export async function seedInstance(
  tenantId: string,
  row: { status?: string; acceptedAt?: number; subject?: string; error?: object; workflow?: string; cause?: string } = {},
) {
  const id = hexId();
  await env.DB.prepare(
    `INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, queue, status, error, accepted_at, updated_at, cause)
     VALUES (?1, ?2, ?8, 'research.requested', ?1, 'job-' || ?1, 'test', ?3, 'f', ?4, 'gatherfeed-commands', ?5, ?6, ?7, ?7, ?9)`,
  )
    .bind(
      id,
      tenantId,
      row.subject ?? "acme/mint",
      JSON.stringify(envelopeFor(tenantId, id)),
      row.status ?? "complete",
      row.error ? JSON.stringify(row.error) : null,
      row.acceptedAt ?? Date.now(),
      row.workflow ?? "research-keyword",
      row.cause ?? null,
    )
    .run();
  return id;
}

/** A guarded effect of an instance; returns the key that resolves it. */
export async function seedEffect(instanceId: string, row: { state?: string; step?: string } = {}): Promise<string> {
  const step = row.step ?? "send mail";
  await env.DB.prepare(
    `INSERT INTO millrace_inbox (instance_id, step, item, generation, position, class, state, epoch, token, input, updated_at)
     VALUES (?1, ?2, '', 1, 9, 'once', ?3, 1, 't', '{"to":"x"}', ?4)`,
  )
    .bind(instanceId, step, row.state ?? "in_doubt", Date.now())
    .run();
  return effects.key({ instanceId, step, item: "", generation: 1 });
}

/** A question that an instance of the tenant has asked. */
export async function seedApproval(tenantId: string, row: { instanceId?: string; state?: string; dueAt?: number } = {}): Promise<string> {
  const instanceId = row.instanceId ?? (await seedInstance(tenantId, { status: "waiting" }));
  const id = `${instanceId}-${hexId().slice(0, 16)}`;
  const state = row.state ?? "pending";
  const now = Date.now();
  await env.DB.prepare(
    `INSERT INTO millrace_approvals (instance_id, step, id, tenant_id, workflow, question, details, state, otherwise, due_at, asked_at, decided_at)
     VALUES (?1, ?2, ?2, ?3, 'research-keyword', 'May it happen?', '{"title":"Mint"}', ?4, 'reject', ?5, ?6, ?7)`,
  )
    .bind(instanceId, id, tenantId, state, row.dueAt ?? now + 60_000, now, state === "pending" ? null : now)
    .run();
  return id;
}

/** A dead letter, with or without a tenant. */
export async function seedLetter(
  tenantId: string | null,
  row: { body?: unknown; reason?: string; queue?: string; capturedAt?: number; cause?: string; error?: string } = {},
): Promise<string> {
  const id = hexId();
  await env.DB.prepare(
    `INSERT INTO millrace_dead_letters (id, tenant_id, queue, message_type, body, reason, error, attempts, first_at, captured_at, cause)
     VALUES (?1, ?2, ?3, 'research.requested', ?4, ?5, ?8, 4, ?6, ?6, ?7)`,
  )
    .bind(
      id,
      tenantId,
      row.queue ?? "gatherfeed-commands",
      JSON.stringify(row.body ?? envelopeFor(tenantId ?? "nobody", id)),
      row.reason ?? "exhausted",
      row.capturedAt ?? Date.now(),
      row.cause ?? null,
      row.error ?? "It broke.",
    )
    .run();
  return id;
}

/** A batch that has started. */
export async function seedBatch(tenantId: string, instanceId: string): Promise<string> {
  const id = hexId();
  await env.DB.prepare(
    `INSERT INTO batches (tenant_id, batch_id, operation, dataset, format, formulas, fingerprint, instance_id, state, created_at, updated_at)
     VALUES (?1, ?2, 'export', 'contacts', 'csv', 'escape', 'f', ?3, 'running', ?4, ?4)`,
  )
    .bind(tenantId, id, instanceId, Date.now())
    .run();
  return id;
}

/** A message in the form in which a queue delivers it. */
export function envelopeFor(tenantId: string, key: string, payload: object = { brand: "acme", keyword: key }) {
  return {
    schema_version: 1,
    message_type: "research.requested",
    kind: "command",
    source: "test",
    correlation_id: `job-${key}`,
    causation_id: "test",
    idempotency_key: key,
    subject: `acme/${key}`,
    tenant_id: tenantId,
    created_at: "2026-10-01T09:30:00.000Z",
    traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    payload_inline: payload,
  };
}
