import { NAMED, type Told, type Worker } from "./told.ts";

/**
 * The module with which miniflare creates a D1 binding. This binding sends each statement to a Worker, which forwards the statement to the
 * Durable Object.
 */
const THEIRS = "cloudflare-internal:d1-api";

/**
 * A D1 binding that calls the Durable Object directly. For this, the `fetch` of the binding's reference to miniflare's D1 Worker is
 * replaced. The binding's fields are not used, because they differ between versions of workerd (they are private from 1.20261117 on). If
 * the reference cannot be changed, or a statement uses another method, the Worker still forwards the statement.
 */
const AT_ONCE = {
  name: "millrace:database",
  internal: true,
  esModule: `
    import made from "${THEIRS}";
    export default function ({ fetcher, objects, name }) {
      const [id, cf] = [objects.idFromName(name), { miniflare: { name } }];
      try {
        fetcher.fetch = (asked, init) => objects.get(id).fetch(asked, { ...init, cf });
      } catch {}
      return made({ fetcher });
    }`,
};

/**
 * Sends each statement directly to the Durable Object of the database. A direct call takes 70 % of the processor time of a call through a
 * Worker. Remote databases are not changed.
 */
export function databasesAtOnce(told: Told): void {
  const workers = new Map<unknown, Worker | undefined>(told.services.map(({ name, worker }) => [name, worker]));
  const wrapped = told.services.flatMap(({ worker }) => worker?.bindings ?? []).flatMap((one) => one.wrapped ?? []);
  for (const database of wrapped.filter(({ moduleName }) => moduleName === THEIRS)) {
    const asked = database.innerBindings[0]?.service;
    const bound = workers.get(asked?.name)?.bindings?.find(({ durableObjectNamespace }) => durableObjectNamespace);
    const name: string | undefined = asked?.props && JSON.parse(asked.props.json)[NAMED];
    if (!bound?.durableObjectNamespace || name === undefined) continue;
    database.moduleName = AT_ONCE.name;
    database.innerBindings.push({ name: "objects", durableObjectNamespace: bound.durableObjectNamespace }, { name: "name", text: name });
  }
  if (wrapped.some(({ moduleName }) => moduleName === AT_ONCE.name)) told.extensions = [...(told.extensions ?? []), { modules: [AT_ONCE] }];
}
