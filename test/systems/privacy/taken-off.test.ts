import { env } from "cloudflare:workers";
import { atomically, sql, traces } from "millrace";
import { expect, it } from "vitest";
import { writeContacts } from "../../../src/systems/contacts/contact.ts";
import { pseudonymOf } from "../../../src/systems/contacts/forgotten.ts";
import { contactBookOf } from "../../../src/systems/facts/derived/contact-books.ts";
import { takeOff } from "../../../src/systems/privacy/forget.ts";
import { fresh, type Json } from "../../api/client.ts";

/** A person whose erasure is at its first step. */
async function somebody() {
  const [tenantId, id] = [fresh("tenant"), fresh("c")];
  const person = pseudonymOf(env, tenantId, id);
  await atomically(env.DB, [
    sql`
      INSERT INTO forgettings (tenant_id, pseudonym, contact_id, asked_by, reason, asked_at)
      VALUES (${tenantId}, ${person}, ${id}, 'ada', 'asked', 1)`,
  ]);
  const read = async (within: Env = env) => {
    const { statements = [] } = await takeOff({
      env: within,
      tenantId,
      instanceId: fresh(),
      person,
      trace: { traceparent: traces.begin() },
    });
    return () => atomically(env.DB, statements);
  };
  const known = async (): Promise<Json> => {
    const row = await env.DB.prepare("SELECT person FROM forgettings WHERE pseudonym = ?1").bind(person).first<{ person: string }>();
    return JSON.parse(row?.person ?? "null");
  };
  return { tenantId, id, read, known };
}

function imported(tenantId: string, contact_id: string, email: string) {
  return atomically(env.DB, [writeContacts(tenantId, "file", JSON.stringify([{ contact_id, email, properties: {}, pseudonym: "" }]))]);
}

it.each([0, 1])(
  "an address that is imported while its person is being erased is searched for, with a contact imported %i times before",
  async (before) => {
    const { tenantId, id, read, known } = await somebody();
    if (before > 0) await imported(tenantId, id, "old@example.com");
    const write = await read();
    await imported(tenantId, id, "new@example.com");
    await expect(write()).rejects.toThrow("contact_changed_meanwhile");
    expect(await known()).toBeNull();
    await (await read())();
    expect(await known()).toMatchObject({ emails: ["new@example.com"] });
  },
);

it("a contact that is merged with another one during the erasure of a person belongs to that person", async () => {
  const { tenantId, id, read, known } = await somebody();
  const twin = fresh("c");
  await imported(tenantId, twin, "twin@example.com");
  const book = contactBookOf(env, tenantId);
  const contact = async (asked: string) => {
    const answer = await book.contact(asked);
    await book.merge({ entity: "contacts", fact_id: "m", occurred_at: "2026-10-01T09:30:00.000Z", from: id, into: twin });
    return answer;
  };
  const late = { ...env, CONTACT_BOOK: { idFromName: () => undefined, get: () => ({ contact }) } } as unknown as Env;
  await (await read(late))();
  expect(await known()).toMatchObject({ ids: [{ id }, { id: twin }], emails: ["twin@example.com"] });
});
