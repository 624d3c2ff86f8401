import { type Context, Hono, type Next } from "hono";
import * as z from "zod";
import { EMBEDDED_HANDLE, EMBEDDED_TOKEN } from "../providers/credentials.ts";
import { contentId } from "./content-id.ts";
import { type EmbeddedEnv, ledgerOf } from "./env.ts";
import { DeletePost, PutPost } from "./post-lexicon.ts";

/** The lifetime of Bluesky's own access tokens. */
const SESSION_LIFETIME_MS = 2 * 60 * 60_000;

type SocialEnv = { Bindings: EmbeddedEnv; Variables: { did: string } };

const Credentials = z.object({ identifier: z.string(), password: z.string() });

/** An AT Protocol server with one account and one collection, `app.bsky.feed.post`. */
export const social = new Hono<SocialEnv>()
  .post("/xrpc/com.atproto.server.createSession", async (context) => {
    const credentials = Credentials.safeParse(await context.req.json().catch(() => undefined));
    if (!credentials.success) return context.json(socialError(400, z.prettifyError(credentials.error)), 400);

    const { identifier, password } = credentials.data;
    const handle = context.env.SOCIAL_HANDLE || EMBEDDED_HANDLE;
    if (identifier !== handle || password !== (context.env.SOCIAL_PASSWORD || EMBEDDED_TOKEN)) {
      return context.json(socialError(401, "Invalid identifier or password"), 401);
    }
    const did = `did:web:${handle}`;
    const accessJwt = randomToken();
    await ledgerOf(context.env).openSession(accessJwt, did, Date.now() + SESSION_LIFETIME_MS);
    return context.json({ did, handle, accessJwt, refreshJwt: randomToken(), active: true });
  })

  .post("/xrpc/com.atproto.repo.deleteRecord", signedIn, async (context) => {
    const write = DeletePost.safeParse(await context.req.json().catch(() => undefined));
    if (!write.success) return context.json(socialError(400, z.prettifyError(write.error)), 400);

    const { repo, collection, rkey } = write.data;
    if (repo !== context.get("did")) return context.json(socialError(401, "The repo is another account's"), 401);
    const call = { upstream: "social" as const, key: context.req.header("idempotency-key") ?? null, subject: rkey };
    await ledgerOf(context.env).deleteRecord(call, `at://${repo}/${collection}/${rkey}`);
    return context.json({});
  })

  .post("/xrpc/com.atproto.repo.putRecord", signedIn, async (context) => {
    const write = PutPost.safeParse(await context.req.json().catch(() => undefined));
    if (!write.success) return context.json(socialError(400, firstIssue(write.error)), 400);

    const { repo, collection, rkey, record } = write.data;
    if (repo !== context.get("did")) return context.json(socialError(401, "The repo is another account's"), 401);

    const uri = `at://${repo}/${collection}/${rkey}`;
    const cid = await contentId(record);
    const call = { upstream: "social" as const, key: context.req.header("idempotency-key") ?? null, subject: `${rkey} ${record.text}` };
    await ledgerOf(context.env).putRecord(call, uri, cid, JSON.stringify(record));
    return context.json({ uri, cid, validationStatus: "valid" });
  })

  .get("/xrpc/com.atproto.repo.getRecord", async (context) => {
    const { repo, collection, rkey } = context.req.query();
    const uri = `at://${repo}/${collection}/${rkey}`;
    const record = await ledgerOf(context.env).getRecord(uri);
    if (!record) return context.json(socialError(400, `Could not locate record: ${uri}`, "RecordNotFound"), 400);
    return context.json({ uri, cid: record.cid, value: JSON.parse(record.value) });
  });

/** Checks the session of a request. AT Protocol servers return 400 for an expired session token, not 401. */
async function signedIn(context: Context<SocialEnv>, next: Next): Promise<Response | undefined> {
  const token = context.req.header("authorization")?.replace(/^Bearer /, "") ?? "";
  const session = await ledgerOf(context.env).sessionOf(token);
  if (session === "expired") return context.json(socialError(400, "Token has expired", "ExpiredToken"), 400);
  if (session === "unknown") return context.json(socialError(400, "Token could not be verified", "InvalidToken"), 400);
  context.set("did", session.did);
  await next();
  return undefined;
}

/** Returns an error body `{ error, message }`, where `error` is the name that clients check. */
export function socialError(status: number, message: string, error = nameOf(status)): object {
  return { error, message };
}

function nameOf(status: number): string {
  if (status === 401) return "AuthenticationRequired";
  if (status === 429) return "RateLimitExceeded";
  return status < 500 ? "InvalidRequest" : "InternalServerError";
}

function firstIssue({ issues: [issue] }: z.ZodError): string {
  return `Invalid app.bsky.feed.post record: ${issue?.path.join("/")}: ${issue?.message}`;
}

function randomToken(): string {
  return crypto.getRandomValues(new Uint8Array(32)).toBase64({ alphabet: "base64url", omitPadding: true });
}
