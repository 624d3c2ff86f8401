import { cell } from "./cell.ts";
import { setClock } from "./clock.ts";
import { type Problem, problemIn, unanswered, unsendable } from "./problem.ts";

/** Who is signed in, as the API says it. */
export interface Caller {
  tenant: string;
  actor: string;
  scopes: string[];
  expires_at: string | null;
  /** What time it is at the engine. */
  at: string;
}

/** Whether somebody is signed in. A token is kept here, in the page's memory, and nowhere else. */
export interface Session {
  /** `in` and `again` show the screens; `again` asks for a token over them. */
  state: "asking" | "out" | "in" | "again";
  token?: string;
  caller?: Caller;
  /** Why a token is asked for. */
  why?: Problem;
  /** Grows with each sign-in: what is shown is asked for again. */
  nth: number;
}

export const session = cell<Session>({ state: "asking", nth: 0 });

/** True where the caller's token may do this; the API decides, and this only spares people a refusal. */
export function may(scope: string): boolean {
  return session.get().caller?.scopes.includes(scope) ?? false;
}

/** What signs in, as it was tried last: a code and a token outlive here that nobody answered. */
let attempt: () => Promise<void> = begin;

/** Tries to sign in once more, as before. */
export function tryAgain(): Promise<void> {
  return attempt();
}

/** Signs in by the code of the page's address, which leaves it at once; by Cloudflare Access; or asks for a token. */
export function begin(): Promise<void> {
  const code = /^#code=(.+)$/.exec(location.hash)?.[1];
  if (location.hash) history.replaceState(history.state, "", location.pathname + location.search);
  return code === undefined ? look(undefined) : trade(code);
}

async function trade(code: string): Promise<void> {
  attempt = () => trade(code);
  const isOpen = session.get().state === "in";
  try {
    const answer = await fetch("/console/sign-in", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ code }),
    });
    // Whoever is signed in stays so, whatever a link says that was used before.
    if (!answer.ok) return isOpen ? undefined : out(await problemIn(answer));
    const { token, ...caller } = (await answer.json()) as Caller & { token: string };
    enter({ token, caller });
  } catch (error) {
    if (!isOpen) out({ ...unanswered(error), detail: "The engine cannot be reached. Your link may still be valid: try again." });
  }
}

/** Signs in with a token, or with whatever the browser is known by: answers through `session`. */
export async function look(token: string | undefined): Promise<void> {
  attempt = () => look(token);
  if (token !== undefined && !/^[!-~]+$/.test(token)) return out(NO_TOKEN);
  try {
    const answer = await fetch("/v1/caller", { headers: token ? { authorization: `Bearer ${token}` } : {} });
    if (answer.ok) enter({ ...(token && { token }), caller: (await answer.json()) as Caller });
    else if (token || answer.status !== 401) out(await problemIn(answer));
    else out();
  } catch (error) {
    out({ ...unanswered(error), detail: "The engine cannot be reached." });
  }
}

const NO_TOKEN = unsendable("This is not a token. A token is mr_ followed by letters, digits and underscores.");

function enter({ token, caller }: { token?: string; caller: Caller }): void {
  setClock(caller.at);
  attempt = begin;
  session.set({ state: "in", ...(token && { token }), caller, nth: session.get().nth + 1 });
}

/** Nobody is signed in, or nobody any more: whoever looks at something keeps seeing it. */
function out(why?: Problem): void {
  const { caller, nth, state } = session.get();
  const isOpen = state === "in" || state === "again";
  session.set({ state: isOpen ? "again" : "out", nth, ...(isOpen && caller && { caller }), ...(why && { why }) });
}

/** The token of an open page does not work any more. */
export function expired(why: Problem): void {
  if (session.get().state === "in") out(why);
}

/** Forgets the token. */
export function signOut(): void {
  attempt = begin;
  session.set({ state: "out", nth: session.get().nth });
}
