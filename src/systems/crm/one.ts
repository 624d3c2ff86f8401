import { atomically, type Commit, type Envelope, notRetryable } from "millrace";
import { ContactSynced } from "../../messages/crm.ts";
import { CRM_FRESH_MS, type CrmRefusal, crm } from "../../providers/index.ts";
import { FORGOTTEN, forgottenAmong, isPseudonym } from "../contacts/forgotten.ts";
import { writesOf } from "./chunk.ts";
import { asStopped } from "./failures.ts";
import { candidatesByIds } from "./links.ts";
import { mergeRecords } from "./merge-records.ts";
import { outcomeOf } from "./outcome.ts";
import { knownAs, prepare } from "./prepare.ts";
import type { Away, Prepared } from "./prepared.ts";
import type { Pushed } from "./pushed.ts";
import { isForeign } from "./records.ts";
import { connect, employerOf, isToSend, type SendCall, sendCompanies, sendContacts } from "./send.ts";
import { heldPlan, inTurn, orLetGo, type SendKey } from "./sends.ts";

/** The contact to send to the CRM, and the instance that sends the contact. */
export interface OneCall {
  readonly env: Cloudflare.Env;
  readonly envelope: Envelope;
  readonly instanceId: string;
  readonly contactId: string;
}

/**
 * The progress of one contact. The progress contains only ids, because each step's output is stored. The values to send are in the row of
 * the push.
 */
export interface Course {
  /** The requested contact or, if that contact is an alias, the contact of the alias. */
  contact_id: string;
  /** The ids of the contact's record and of its company's record, if known. */
  crm_id: string | null;
  company: string | null;
  /** The time at which the contact's record was read. */
  looked_at: number;
  /** The remaining calls to the CRM, one step each; the last step writes the result. */
  left: readonly ("upsert contact" | "upsert company" | "connect company" | "merge records")[];
  /**
   * Set if another push has reserved the contact, or the contact's record was deleted. In both cases the workflow starts again with the
   * first step.
   */
  again?: true;
}

/**
 * Reads one contact and its record, and stores the values to send. For an alias, the function reads the contact of the alias and that
 * contact's record. If no values must be sent, the sync of the contact is complete. If the contact was requested by name, a record that was
 * deleted in the CRM is recreated. This step and the later steps have two errors: `not_retryable` for an unknown contact or a permanently
 * refused contact, and `upstream_refused` if a later attempt may succeed.
 */
export function lookAtOne(call: OneCall): Promise<Commit<Course>> {
  return orLetGo(call.env.DB, keyOf(call), () => look(call));
}

async function look(call: OneCall): Promise<Commit<Course>> {
  const { env, envelope, instanceId, contactId } = call;
  const tenantId = envelope.tenant_id;
  const { prepared, into } = await inTurn(async () => {
    const asked = await candidatesByIds(env.DB, tenantId, [contactId]);
    const [self] = asked;
    if (!self && (isPseudonym(contactId) || (await forgottenAmong(env, tenantId, [contactId])).size > 0))
      throw notRetryable(`It ${FORGOTTEN}.`);
    if (!self) throw notRetryable(`There is no contact “${contactId}”. GET /v1/contacts lists all contacts.`);
    const canonical = await knownAs({ env, tenantId }, asked);
    const into = canonical.get(contactId) ?? contactId;
    const meant = into === contactId ? asked : [self, ...(await candidatesByIds(env.DB, tenantId, [into]))];
    const as = new Map([...canonical, [into, into]]);
    const how = { revive: true, inSteps: true };
    const prepared = await prepare({ env, tenantId, key: instanceId, trace: envelope }, crm(env, tenantId), meant, as, how);
    if ("lost" in prepared) throw new Error("The deletion of one contact's record needs no confirmation.");
    return "busyUntil" in prepared ? prepared : { prepared, into };
  });
  const [why] = prepared.refused;
  if (why) return refuse(call, "The CRM did not show the contact", why, outcomeOf(prepared, new Map()).pushed);
  const { work, away } = prepared;
  const one = work.find(({ id }) => id === into);
  const employer = one && employerOf(one);
  const left: Course["left"] = [
    ...(one && isToSend(one) ? (["upsert contact"] as const) : []),
    ...(employer ? (["upsert company", "connect company"] as const) : []),
    ...(away.some(hasToMerge) ? (["merge records"] as const) : []),
  ];
  const course = { contact_id: into, crm_id: one?.crmId ?? null, company: null, looked_at: prepared.lookedAt, left };
  return left.length === 0 ? done(call, prepared, course) : { output: course };
}

/**
 * Upserts the contact's record. A late attempt reads the record first, because a person may have changed or deleted the record since the
 * previous attempt.
 */
export async function upsertContact(call: OneCall, looked: Course): Promise<Commit<Course>> {
  const isLate = Date.now() - looked.looked_at > CRM_FRESH_MS;
  const anew = isLate ? await lookAtOne(call) : undefined;
  const course = anew?.output ?? looked;
  if (anew && course.left[0] !== "upsert contact") return anew;
  return go(call, course, async (by, plan) => {
    const outcome = (await sendContacts(by, plan.work)).get(course.contact_id);
    if (outcome?.state === "failed") {
      const { pushed } = outcomeOf(plan, new Map([[course.contact_id, { state: "failed", why: outcome }]]));
      return refuse(call, "The CRM did not take the contact", outcome, pushed);
    }
    // The record was deleted after the read, and the push created a new record with only the changed values.
    if (outcome?.created && course.crm_id !== null) return { ...course, again: true };
    return { ...course, crm_id: outcome?.crmId ?? course.crm_id };
  });
}

export function upsertCompany(call: OneCall, course: Course): Promise<Commit<Course>> {
  return go(call, course, async (by, plan) => {
    const outcome = (await sendCompanies(by, plan.work)).get(course.contact_id);
    if (outcome?.state === "failed")
      return refuse(call, "The CRM did not take the contact's company", outcome, unconnected(plan, course, outcome));
    return { ...course, company: outcome?.crmId ?? null };
  });
}

export function connectCompany(call: OneCall, course: Course): Promise<Commit<Course>> {
  return go(call, course, async (by, plan) => {
    const { crm_id: contact, company } = course;
    if (contact === null || company === null) return course;
    const why = (await connect(by, [{ contact, company }])).get(contact);
    return why ? refuse(call, "The CRM did not connect the contact with its company", why, unconnected(plan, course, why)) : course;
  });
}

/** Merges the records of aliases if needed, and writes the result of the contact's sync. The CRM calls are in `done`. */
export function mergeRecordsOfOne(call: OneCall, course: Course): Promise<Commit<Course>> {
  return go(call, course, async () => course);
}

/** Returns the result for a contact whose record in the CRM is not connected with the contact's company. */
function unconnected(plan: Prepared, { contact_id: id, crm_id: crmId }: Course, why: CrmRefusal): Pushed {
  return outcomeOf(plan, new Map(crmId === null ? [] : [[id, { state: "done", crmId, unconnected: why }]])).pushed;
}

/** Makes one call while the call's contacts are still reserved; after the last call, writes the result of all calls. */
function go(call: OneCall, course: Course, make: (by: SendCall, plan: Prepared) => Promise<Course>): Promise<Commit<Course>> {
  const { env, envelope, instanceId } = call;
  const tenantId = envelope.tenant_id;
  return orLetGo(env.DB, keyOf(call), async () => {
    const plan = await heldPlan(env.DB, keyOf(call));
    if (!plan) return { output: { ...course, left: [], again: true } };
    const made = await make({ upstream: crm(env, tenantId), tenantId, options: { key: instanceId, trace: envelope } }, plan);
    if (made.again) return { output: { ...made, left: [] } };
    const next = { ...made, left: course.left.slice(1) };
    return next.left.length === 0 ? done(call, plan, next) : { output: next };
  });
}

/** Merges records if needed, and writes the contact's result. */
async function done(call: OneCall, plan: Prepared, course: Course): Promise<Commit<Course>> {
  const { env, envelope, instanceId } = call;
  const tenantId = envelope.tenant_id;
  const { contact_id: id, crm_id: crmId } = course;
  const { pushed, records } = outcomeOf(plan, new Map(crmId === null ? [] : [[id, { state: "done", crmId }]]));
  const options = { key: instanceId, trace: envelope };
  await mergeRecords({ upstream: crm(env, tenantId), options, revive: true }, plan.away, records, pushed);
  const [why] = pushed.refused;
  if (why) return refuse(call, "The CRM did not merge the contact's record", why, pushed);
  const link = pushed.links.find(({ contactId }) => contactId === id);
  return {
    statements: writesOf(keyOf(call), pushed),
    emit: link ? [ContactSynced.from({ contact_id: id, crm_id: link.crmId, revision: link.revision })] : [],
    output: { ...course, crm_id: link?.crmId ?? null },
  };
}

/** Writes the known values and the error, releases the contact, and fails the step. */
async function refuse(call: OneCall, what: string, why: CrmRefusal, pushed: Pushed): Promise<never> {
  await atomically(call.env.DB, writesOf(keyOf(call), pushed));
  throw asStopped(what, why);
}

/** The key by which the contact is reserved. */
function keyOf({ envelope, instanceId }: OneCall): SendKey {
  return { tenantId: envelope.tenant_id, sendId: instanceId };
}

function hasToMerge({ record }: Away): boolean {
  return record.state === "found" || (record.state === "refused" && !isForeign(record.why));
}
