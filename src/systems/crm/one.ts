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

/** Whose contact is brought to the CRM, and by which instance. */
export interface OneCall {
  readonly env: Cloudflare.Env;
  readonly envelope: Envelope;
  readonly instanceId: string;
  readonly contactId: string;
}

/** How far one contact is: ids alone, because each step's answer is kept. What is to be sent stands in the push's own record. */
export interface Course {
  /** The one that the contact is known as. */
  contact_id: string;
  /** Its record, and its company's, as far as they are known. */
  crm_id: string | null;
  company: string | null;
  /** When its record was read. */
  looked_at: number;
  /** Calls that are still to be made, each by a step; the last writes what became of it. */
  left: readonly ("upsert contact" | "upsert company" | "connect company" | "merge records")[];
  /** Somebody else has taken the contact over meanwhile, or its record was deleted: it is looked at anew. */
  again?: true;
}

/**
 * Looks at one contact and at its record, or those of the contact that it is known as, and puts on record what is to be sent. Where that is
 * nothing, all is done. Asked for by name, a record that was deleted there is made anew. Errors, here and in the steps that follow:
 * `not_retryable` for a contact that is not there or that the CRM refuses, `upstream_refused` when it may be taken later.
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
    if (!self) throw notRetryable(`There is no contact “${contactId}”. GET /v1/contacts lists those there are.`);
    const canonical = await knownAs({ env, tenantId }, asked);
    const into = canonical.get(contactId) ?? contactId;
    const meant = into === contactId ? asked : [self, ...(await candidatesByIds(env.DB, tenantId, [into]))];
    const as = new Map([...canonical, [into, into]]);
    const how = { revive: true, inSteps: true };
    const prepared = await prepare({ env, tenantId, key: instanceId, trace: envelope }, crm(env, tenantId), meant, as, how);
    if ("lost" in prepared) throw new Error("One contact is no reason to ask.");
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

/** An attempt that comes late looks first: a person may have changed or deleted the record since. */
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
    // Deleted since it was read, it was made again of what changed alone.
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

/** The last of them: what it calls for is in `done`. */
export function mergeRecordsOfOne(call: OneCall, course: Course): Promise<Commit<Course>> {
  return go(call, course, async () => course);
}

/** What is known of a contact that is there, and without its company. */
function unconnected(plan: Prepared, { contact_id: id, crm_id: crmId }: Course, why: CrmRefusal): Pushed {
  return outcomeOf(plan, new Map(crmId === null ? [] : [[id, { state: "done", crmId, unconnected: why }]])).pushed;
}

/** Makes one call of a course, whose contacts are still its own, and where it is the last, writes what became of all of them. */
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

/** Merges records where that is to be done, and writes what became of the contact. */
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

/** Writes what is known and why it goes no further, so that nobody waits for the contact, and fails the step. */
async function refuse(call: OneCall, what: string, why: CrmRefusal, pushed: Pushed): Promise<never> {
  await atomically(call.env.DB, writesOf(keyOf(call), pushed));
  throw asStopped(what, why);
}

/** By what the contact is on record. */
function keyOf({ envelope, instanceId }: OneCall): SendKey {
  return { tenantId: envelope.tenant_id, sendId: instanceId };
}

function hasToMerge({ record }: Away): boolean {
  return record.state === "found" || (record.state === "refused" && !isForeign(record.why));
}
