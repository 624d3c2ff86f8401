import { cell } from "./cell.ts";
import { setClock } from "./clock.ts";
import { type Problem, problemIn, unanswered, unsendable } from "./problem.ts";
import { stored } from "./remembered.ts";

export interface Caller {
  tenant: string;
  actor: string;
  scopes: string[];
  expires_at: string | null;
  at: string;
}

export interface Session {
  /** In the states `in` and `again`, the screens are shown. In the state `again`, a dialog also asks for a token. */
  state: "asking" | "out" | "in" | "again";
  token?: string;
  caller?: Caller;
  why?: Problem;
  /** The number of sign-ins so far. When this number changes, all data is loaded again. */
  nth: number;
}

export const session = cell<Session>({ state: "asking", nth: 0 });

/** True if the token has the scope. This check only hides actions that the API would refuse; the API itself checks the scope. */
export function may(scope: string): boolean {
  return session.get().caller?.scopes.includes(scope) ?? false;
}

/** The token of this tab, which a reload of the page uses again. */
const kept = stored("sessionStorage", "token");

/** The last attempt to sign in. If no response arrived, the same code or token can be sent again. */
let attempt: () => Promise<void> = begin;

export function tryAgain(): Promise<void> {
  return attempt();
}

/** Signs in with the code in the page's address, which is removed, or with the tab's token, or with Cloudflare Access. */
export function begin(): Promise<void> {
  const code = /^#code=(.+)$/.exec(location.hash)?.[1];
  if (location.hash) history.replaceState(history.state, "", location.pathname + location.search);
  return code === undefined ? look(kept.read()) : trade(code);
}

/** If a sign-in link was used before, or the engine cannot be reached, an existing session is not ended. */
function trade(code: string): Promise<void> {
  const isOpen = session.get().state === "in";
  const body = JSON.stringify({ code });
  const request = () => fetch("/console/sign-in", { method: "POST", headers: { "content-type": "application/json" }, body });
  return signIn(request, (why) => {
    if (!isOpen) out(why.status === 0 ? { ...why, detail: `${why.detail} Your link may still be valid: try again.` } : why);
  });
}

/** Signs in with a token, or without a token with the browser's own credentials. The result is stored in `session`. */
export async function look(token: string | undefined): Promise<void> {
  if (token !== undefined && !/^[!-~]+$/.test(token)) return out(NO_TOKEN);
  const request = () => fetch("/v1/caller", { headers: token ? { authorization: `Bearer ${token}` } : {} });
  return signIn(request, (why) => out(token || why.status !== 401 ? why : undefined), token);
}

async function signIn(request: () => Promise<Response>, refused: (why: Problem) => void, sent?: string): Promise<void> {
  attempt = () => signIn(request, refused, sent);
  try {
    const answer = await request();
    if (!answer.ok) return refused(await problemIn(answer));
    const { token = sent, ...caller } = (await answer.json()) as Caller & { token?: string };
    enter({ caller, ...(token && { token }) });
  } catch {
    refused({ ...unanswered(), detail: "The engine cannot be reached." });
  }
}

const NO_TOKEN = unsendable("This is not a token. A token is mr_ followed by letters, digits and underscores.");

function enter({ token, caller }: { token?: string; caller: Caller }): void {
  setClock(caller.at);
  attempt = begin;
  kept.write(token);
  session.set({ state: "in", ...(token && { token }), caller, nth: session.get().nth + 1 });
}

/** Ends the session. The current screen remains visible under a sign-in dialog. */
function out(why?: Problem): void {
  const { caller, nth, state } = session.get();
  const isOpen = state === "in" || state === "again";
  // After a failure with another status, the token is kept, so that a reload tries the token again.
  if (why?.status === 401) kept.write();
  session.set({ state: isOpen ? "again" : "out", nth, ...(isOpen && caller && { caller }), ...(why && { why }) });
}

export function expired(why: Problem): void {
  if (session.get().state === "in") out(why);
}

export function signOut(): void {
  attempt = begin;
  kept.write();
  session.set({ state: "out", nth: session.get().nth });
}
