import { env } from "cloudflare:workers";
import { ids } from "millrace";
import { type BrandSettings, DEFAULT_SETTINGS, putSettings } from "../../../src/systems/brand/settings.ts";
import { type Caller, type Json, until } from "../../api/client.ts";

/** Two sites and three accounts, one on each platform, in the embedded upstreams. */
export const TARGETS = {
  sites: [
    { name: "main", kind: "deployment" },
    { name: "shop", kind: "store" },
  ],
  accounts: [
    { name: "main", platform: "bluesky" },
    { name: "fedi", platform: "mastodon" },
    { name: "birds", platform: "x" },
  ],
} as const satisfies Partial<BrandSettings>;

/** Settings of a brand as rows, without the checks of the API. */
export function withTargets({ tenantId }: Caller, brand: string, settings: Partial<BrandSettings> = {}) {
  return putSettings(env.DB, { tenantId, actor: "ada" }, brand, { ...DEFAULT_SETTINGS, ...TARGETS, ...settings });
}

/** The instances of an article's targets. */
export function instancesOf({ tenantId }: Pick<Caller, "tenantId">, id: string) {
  return {
    main: ids.instance(tenantId, "publish-article", id),
    shop: ids.instance(tenantId, "publish-to-site", `${id}/shop`),
    bluesky: ids.instance(tenantId, "post-to-social", id),
    mastodon: ids.instance(tenantId, "post-to-social", `${id}/mastodon/fedi`),
    x: ids.instance(tenantId, "post-to-social", `${id}/x/birds`),
  };
}

/** The statuses of an article's targets, by their names: `{ main: "published", birds: "posted" }`. */
export function statusesIn({ published_to, posts }: Json): Record<string, string> {
  const sites = published_to.map(({ site, status }: Json) => [site, status]);
  const accounts = posts.map(({ account, platform, status }: Json) => [`${account} on ${platform}`, status]);
  return Object.fromEntries([...sites, ...accounts]);
}

/** The article, once its targets have these statuses. */
export async function standsAt(caller: Caller, id: string, statuses: Record<string, string>): Promise<Json> {
  const wanted = Object.entries(statuses);
  const { body } = await until(
    () => caller.get(`/v1/articles/${id}`),
    ({ body }) => body.published_to !== undefined && wanted.every(([name, status]) => statusesIn(body)[name] === status),
  );
  const found = statusesIn(body);
  for (const [name, status] of wanted) if (found[name] !== status) throw new Error(`${name} is ${found[name]}, not ${status}.`);
  return body;
}
