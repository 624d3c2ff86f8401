import { MillraceError, notRetryable, upstreamRefused } from "millrace";
import * as z from "zod";
import { jsonOf } from "./json.ts";
import type { Page, Pages, PublishedPage } from "./pages.ts";
import type { Answer } from "./refusal.ts";
import { type CallOptions, callUpstream, type Upstream } from "./upstream.ts";

/** The fields of a WordPress post that the connector reads. A post in the trash has a status that WordPress' own schema does not list. */
const Post = z.object({
  id: z.int(),
  slug: z.string(),
  status: z.string(),
  link: z.url(),
  date: z.string().nullish(),
  modified_gmt: z.string().nullable(),
});
type Post = z.infer<typeof Post>;

const FIELDS = Object.keys(Post.shape).join();
/** WordPress' response to a removal: the post in the trash, or a confirmation of its permanent deletion. */
const Deleted = z.object({ deleted: z.boolean().optional(), status: z.string().optional() });

/** WordPress shortens longer slugs, and appends its own suffixes to them. */
const SLUG = /^(?=.{1,180}$)[a-z0-9]+(?:-[a-z0-9]+)*$/;

/**
 * WordPress, by its REST API and an application password (`upstream.credential`) of a user who may publish.
 *
 * WordPress has no idempotency key, and creating an existing slug makes a second post, `slug-2`: so every write searches first. The app
 * recognizes its post by the slug, which ends with digits of the article's id. (REST stores a `meta` field only if a plugin registers it.)
 */
export function wordpressPages(upstream: Upstream, store: string, user: string): Pages {
  const credential = new TextEncoder().encode(`${user}:${upstream.credential.value}`).toBase64();
  const headers = { authorization: `Basic ${credential}`, "content-type": "application/json" };
  const meaning = meaningOf(upstream);

  const request = <T>(
    method: "GET" | "POST" | "DELETE",
    route: string,
    query: Record<string, string>,
    schema: z.ZodType<T>,
    options: CallOptions,
    body?: object,
  ) =>
    callUpstream(
      upstream,
      // This form of a REST route works with all permalink settings; `/wp-json` is missing with plain permalinks.
      {
        method,
        path: `/?${new URLSearchParams({ rest_route: `/wp/v2/posts${route}`, ...query })}`,
        headers,
        body: body && JSON.stringify(body),
        meaning,
      },
      schema,
      options,
    );

  /** Finds the app's post in any state: published, a draft after an editor's change, or in the trash. */
  async function look({ slug }: Pick<Page, "slug">, options: CallOptions): Promise<Post | undefined> {
    if (!SLUG.test(slug))
      throw notRetryable(`"${slug}" is not a slug WordPress keeps as it is. Use up to 180 lower case letters, digits and dashes.`);
    const names = namesOf(slug);
    // `any` selects every status but the trash.
    const query = { slug: names.join(), status: "any,trash", context: "edit", _fields: FIELDS };
    const found = await request("GET", "", query, z.array(Post), options);
    const rank = (post: Post) => (post.status === "publish" ? 0 : names.length) + names.indexOf(post.slug);
    return found.filter(({ slug }) => names.includes(slug)).sort((one, other) => rank(one) - rank(other))[0];
  }

  async function remove(id: number, query: Record<string, string>, options: CallOptions): Promise<void> {
    const { deleted, status } = await request("DELETE", `/${id}`, query, Deleted, options);
    if (deleted || status === "trash") return;
    const now = status === undefined ? "" : `, and the post is "${status}"`;
    throw new MillraceError("unavailable", `WordPress responded to the removal of the post ${id}, but did not remove it${now}.`);
  }

  return {
    kind: "wordpress",
    store,
    repeatable: false,

    async put(page, options) {
      const standing = await look(page, options);
      // `raw` is the stored text, by WordPress' own schema.
      const body = {
        slug: page.slug,
        status: "publish",
        title: { raw: asHtml(page.title) },
        content: { raw: withoutShortcodes(page.content) },
      };
      const write = (route: string) => request("POST", route, { _fields: FIELDS }, Post, options, body);
      if (standing) return published(await write(`/${standing.id}`));

      const made = await write("");
      if (made.slug === page.slug) return published(made);
      // Another post has taken the slug since the search. If that is a post of another attempt, it remains and this one is deleted. If a
      // picture has the slug, the new post remains.
      const first = await look(page, options);
      if (first === undefined || first.id === made.id) return published(made);
      await remove(made.id, { force: "true" }, options);
      return published(first);
    },

    async find(page, options) {
      const standing = await look(page, options);
      return standing?.status === "publish" ? published(standing) : undefined;
    },

    /** Moves the post to the trash, where a person can find it and the next `put` restores it, with its URL and comments. */
    async remove(page, options) {
      const standing = await look(page, options);
      if (standing === undefined || standing.status === "trash") return;
      try {
        await remove(standing.id, {}, options);
      } catch (error) {
        const status = error instanceof MillraceError ? error.detail.upstreamStatus : undefined;
        // The status 501 means that this site has no trash.
        if (status === 501) await remove(standing.id, { force: "true" }, options);
        else if (status !== 410) throw error;
      }
    },
  };
}

/**
 * Returns the possible slugs of the app's post, the best first: its own slug; the one beside a picture of that name; and the forms of both
 * in the trash.
 */
function namesOf(slug: string): string[] {
  return [slug, `${slug}-2`, `${slug}__trashed`, `${slug}-2__trashed`];
}

/**
 * Returns the page of a published post. WordPress returns 200 with another status for a future date (`future`), for a plugin's review
 * (`pending`), or if an editor has hidden the post. Errors: `not_retryable` in these cases, because the post is not public.
 */
function published({ id, status, link, date, modified_gmt }: Post): PublishedPage {
  if (status !== "publish") {
    const dated = status === "future" && date ? ` for ${date}` : "";
    throw notRetryable(
      `WordPress has made the post ${id} "${status}"${dated}, not "publish": it is not public. Publish it in WordPress, or give it a date that has passed, then retry.`,
    );
  }
  return { url: link, etag: `"${id}-${modified_gmt}"` };
}

/** WordPress treats a title as HTML, and keeps even scripts of users with that right, so a title is escaped. */
function asHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/**
 * WordPress runs shortcodes in square brackets that a plugin defines, so brackets in a text are escaped. The author of the text must not be
 * able to run shortcodes.
 */
function withoutShortcodes(html: string): string {
  return html.replaceAll("[", "&#91;");
}

const ErrorBody = z.object({ code: z.string() });

const meaningOf =
  ({ credential: { variable } }: Upstream) =>
  ({ status, text }: Answer): MillraceError | undefined => {
    // WordPress treats a request with a wrong password as anonymous, and an anonymous request for drafts returns 400.
    if (status === 400 && text.includes("rest_forbidden_status")) {
      const names = variable === "PAGES_TOKEN" ? "PAGES_USER and PAGES_TOKEN, an application password" : `user and token of ${variable}`;
      return notRetryable(
        `WordPress does not accept the login. Check ${names}; and that the web server hands the Authorization header to PHP.`,
        status,
      );
    }
    // A post may have been deleted since the search: the next attempt searches again.
    if (status === 404 && codeIn(text) === "rest_post_invalid_id") return upstreamRefused("The post was deleted meanwhile.", status);
    return undefined;
  };

function codeIn(text: string): string | undefined {
  return ErrorBody.safeParse(jsonOf(text)).data?.code;
}
