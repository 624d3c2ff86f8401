import type { IncomingMessage, ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { serve } from "../loopback.ts";
import { verifies } from "../verified.ts";

/** One request as the receiver saw it. */
export interface Request {
  path: string;
  id: string;
  /** Which of the secrets it knows the signature is good for, oldest first. */
  verified: boolean[];
  signatures: number;
  status: number;
}

/** Somebody else's server: it verifies with the reference library, refuses what is not signed, and takes each id once. */
export interface Receiver {
  url: string;
  /** Every request, in the order of arrival. */
  requests: Request[];
  /** Ids that were taken, by path. */
  taken: Map<string, Set<string>>;
  /** What the receiver knows: secrets by path, oldest first. */
  secrets: Map<string, string[]>;
  /** Answers for the next requests on a path; then 204 again. */
  next(path: string, ...answers: { status: number; headers?: Record<string, string> }[]): void;
  stop(): void;
}

/** Starts a receiver on a free port of this machine. */
export async function startReceiver(): Promise<Receiver> {
  const requests: Request[] = [];
  const taken = new Map<string, Set<string>>();
  const secrets = new Map<string, string[]>();
  const planned = new Map<string, { status: number; headers?: Record<string, string> }[]>();

  const take = async (request: IncomingMessage, response: ServerResponse) => {
    const path = request.url ?? "/";
    const body = await text(request);
    const headers = request.headers as Record<string, string>;
    const id = headers["webhook-id"] ?? "";
    const verified = (secrets.get(path) ?? []).map((secret) => verifies(secret, body, headers));
    const answer = verified.includes(true) ? (planned.get(path)?.shift() ?? { status: 204 }) : { status: 401 };
    requests.push({ path, id, verified, signatures: headers["webhook-signature"]?.split(" ").length ?? 0, status: answer.status });
    if (answer.status < 300) taken.set(path, (taken.get(path) ?? new Set()).add(id));
    response.writeHead(answer.status, answer.headers).end();
  };
  const server = await serve(take);
  return {
    ...server,
    requests,
    taken,
    secrets,
    next: (path, ...answers) => void planned.set(path, answers),
  };
}
