import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

// WordPress's posts API, in a separate process, modelled on the observed behaviour of 6.5.5. Each first segment of a path is a site; POST
// and GET of /{site}/control configure a site, and return its content and requests. Run it with: node test/wordpress/server.ts

export const USER = "editor";
export const PASSWORD = "abcd EFGH 1234";

/** A stored post. */
export interface StoredPost {
  id: number;
  slug: string;
  status: string;
  title: string;
  content: string;
  modified: string;
}

/** One request as received. */
export interface Asked {
  method: string;
  route: string;
  query: Record<string, string>;
  body: unknown;
}

/** The behaviour of a site from now on. */
export interface Behaviour {
  /** Slugs of images. */
  pictures?: string[];
  /** Deletes at once: EMPTY_TRASH_DAYS is 0. */
  noTrash?: boolean;
  /** The number of writes that are executed but not answered. */
  drop?: number;
  /** New posts wait until this number of reads have been answered. */
  awaitLooks?: number;
  /**
   * The status that each write gets, for any request: of a future date, or of a plugin that reviews posts. Empty for the requested status.
   */
  keeps?: string;
}

interface Site extends Required<Behaviour> {
  posts: StoredPost[];
  asked: Asked[];
  looks: number;
  lastId: number;
}

interface Answer {
  status: number;
  body: unknown;
}

const sites = new Map<string, Site>();

// A connection that closes as the next request starts looks like a network failure. A client that disconnects early ends that request, not
// this process.
createServer({ keepAliveTimeout: 0 }, (request, response) => void answer(request, response).catch(() => response.destroy())).listen(
  0,
  "127.0.0.1",
  function (this: import("node:net").Server) {
    console.log(JSON.stringify({ port: (this.address() as { port: number }).port }));
  },
);

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? "/", "http://wordpress");
  const [, name = "", area = ""] = url.pathname.split("/");
  const site = sites.get(name) ?? {
    posts: [],
    asked: [],
    looks: 0,
    lastId: 3,
    pictures: [],
    noTrash: false,
    drop: 0,
    awaitLooks: 0,
    keeps: "",
  };
  sites.set(name, site);
  const text = await read(request);
  if (area === "control") {
    if (request.method === "POST") Object.assign(site, JSON.parse(text));
    return send(response, { status: 200, body: { posts: site.posts, asked: site.asked } });
  }
  const { rest_route: route = "", ...query } = Object.fromEntries(url.searchParams);
  const asked = { method: request.method ?? "", route, query, body: text === "" ? undefined : JSON.parse(text) };
  site.asked.push(asked);
  const answered = await handle(site, asked, request.headers.authorization === `Basic ${btoa(`${USER}:${PASSWORD}`)}`);
  if (asked.method !== "GET" && site.drop > 0) {
    site.drop--;
    return void response.destroy();
  }
  send(response, { ...answered, body: onlyFields(answered.body, query._fields) });
}

async function handle(site: Site, { method, route, query, body }: Asked, known: boolean): Promise<Answer> {
  const [, id] = /^\/wp\/v2\/posts(?:\/(\d+))?$/.exec(route) ?? [null];
  if (id === null) return refused(404, "rest_no_route", "No route was found matching the URL and request method.");
  if (method === "GET") return known ? list(site, query) : stranger();
  if (!known)
    return refused(401, method === "POST" ? "rest_cannot_create" : "rest_cannot_delete", "Sorry, you are not allowed to do that.");
  if (method === "POST" && id === undefined) {
    while (site.looks < site.awaitLooks) await sleep(5);
    const post: StoredPost = { id: ++site.lastId, slug: "", status: "draft", title: "", content: "", modified: "" };
    site.posts.push(post);
    return { status: 201, body: shown(write(site, post, body)) };
  }
  const post = site.posts.find((one) => one.id === Number(id));
  if (!post) return refused(404, "rest_post_invalid_id", "Invalid post ID.");
  if (method === "POST") return { status: 200, body: shown(write(site, post, body)) };
  return remove(site, post, query.force === "true");
}

/** `any` is every status but the trash; a slug is compared exactly, so a post in the trash has another slug. */
function list(site: Site, { slug, status = "publish" }: Record<string, string>): Answer {
  const [slugs, statuses] = [slug?.split(","), status.split(",")];
  const asked = (post: StoredPost) => statuses.includes(post.status) || (statuses.includes("any") && post.status !== "trash");
  site.looks++;
  return { status: 200, body: site.posts.filter((post) => asked(post) && (!slugs || slugs.includes(post.slug))).map(shown) };
}

function write(site: Site, post: StoredPost, body: unknown): StoredPost {
  const { slug = post.slug, status = post.status, title, content } = body as Record<string, string>;
  const stored = {
    slug: uniqueSlug(site, post.id, slug),
    status: site.keeps || status,
    title: raw(title) ?? post.title,
    content: raw(content) ?? post.content,
  };
  return Object.assign(post, stored, { modified: new Date().toISOString().slice(0, 19) });
}

function remove(site: Site, post: StoredPost, force: boolean): Answer {
  if (force) {
    site.posts.splice(site.posts.indexOf(post), 1);
    return { status: 200, body: { deleted: true, previous: shown(post) } };
  }
  if (site.noTrash) return refused(501, "rest_trash_not_supported", "The post does not support trashing. Set 'force=true' to delete.");
  if (post.status === "trash") return refused(410, "rest_already_trashed", "The post has already been deleted.");
  Object.assign(post, { status: "trash", slug: uniqueSlug(site, post.id, `${post.slug}__trashed`) });
  return { status: 200, body: shown(post) };
}

/** If a post or an image has the slug, WordPress uses the next free slug, which creates the second post. */
function uniqueSlug(site: Site, id: number, slug: string): string {
  const taken = (name: string) => site.pictures.includes(name) || site.posts.some((post) => post.id !== id && post.slug === name);
  for (let number = 1; ; number++) {
    const name = number === 1 ? slug : `${slug}-${number}`;
    if (!taken(name)) return name;
  }
}

/** A wrong password makes the request anonymous; this is the response to an anonymous request for drafts. */
function stranger(): Answer {
  const details = { status: { code: "rest_forbidden_status", message: "Status is forbidden.", data: { status: 401 } } };
  const body = { code: "rest_invalid_param", message: "Invalid parameter(s): status", data: { status: 400, details } };
  return { status: 400, body };
}

function refused(status: number, code: string, message: string): Answer {
  return { status, body: { code, message, data: { status } } };
}

function shown({ id, slug, status, title, content, modified }: StoredPost): object {
  const link = status === "publish" ? `http://wordpress.example/2026/10/01/${slug}/` : `http://wordpress.example/?p=${id}`;
  const said = { id, slug, status, type: "post", link, date: modified, date_gmt: modified, modified, modified_gmt: modified };
  return { ...said, title: { raw: title, rendered: title }, content: { raw: content, rendered: content, protected: false } };
}

function raw(value: unknown): string | undefined {
  return typeof value === "object" && value !== null && "raw" in value ? String(value.raw) : (value as string | undefined);
}

function onlyFields(body: unknown, fields: string | undefined): unknown {
  if (fields === undefined || (typeof body === "object" && body !== null && "code" in body)) return body;
  if (Array.isArray(body)) return body.map((one) => onlyFields(one, fields));
  return Object.fromEntries(Object.entries(body as object).filter(([name]) => fields.split(",").includes(name)));
}

async function read(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += chunk;
  return text;
}

function send(response: ServerResponse, { status, body }: Answer): void {
  response.writeHead(status, { "content-type": "application/json; charset=UTF-8" }).end(JSON.stringify(body));
}
