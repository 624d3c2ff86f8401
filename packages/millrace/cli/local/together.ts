import { type Asked, type Binding, NAMED, type ObjectClass, type Service, type Told, type Worker } from "./told.ts";

/**
 * Merges the Workers with which miniflare simulates workflows into one Worker, and the Workers with which miniflare simulates queues into a
 * second Worker. Miniflare creates a Worker for each workflow and queue, which takes two thirds of the processor time of a start. The merge
 * does not change the stored state or the paths of the stored state.
 */
export function together(told: Told): void {
  for (const alike of alikeIn(told, isWorkflow)) workflowsTogether(told, alike);
  for (const alike of alikeIn(told, isQueue)) queuesTogether(told, alike);
  databasesAtOnce(told);
}

type Alike = [Required<Service>, ...Required<Service>[]];

const isWorkflow = ({ modules, durableObjectNamespaces }: Worker) =>
  modules?.[0]?.name === "workflows.mjs" && durableObjectNamespaces?.length === 1;

const isQueue = ({ modules, bindings }: Worker, service: string) =>
  modules?.[0]?.name === "object-entry.worker.js" && bindings?.[0]?.name === NAMED && service.startsWith("queues:");

/** The services whose Workers differ only in their bindings and Durable Objects. */
function alikeIn({ services }: Told, isOne: (worker: Worker, service: string) => boolean): Alike[] {
  const some = services.filter((one): one is Required<Service> => one.worker !== undefined && isOne(one.worker, one.name));
  const rest = ({ worker: { bindings: _, durableObjectNamespaces: __, ...others } }: Required<Service>) => JSON.stringify(others);
  return [...Map.groupBy(some, rest).values()].filter((alike): alike is Alike => alike.length > 1);
}

/**
 * Replaces services with the same Worker by one Worker. `again` changes each reference to a replaced service, and changes a shared
 * reference only once.
 */
function replace(told: Told, alike: Alike, worker: Worker, again: (asked: Asked, by: { name: string; index: number }) => void): void {
  const name = `together:${alike[0].name}`;
  const index = new Map(alike.map((one, at) => [one.name as unknown, at]));
  told.services = [...told.services.filter((one) => !index.has(one.name)), { name, worker }];
  const look = (at: unknown) => {
    if (typeof at !== "object" || at === null || ArrayBuffer.isView(at)) return;
    const asked = at as Asked;
    const found = index.get(asked.serviceName ?? asked.name);
    if (found !== undefined) again(asked, { name, index: found });
    for (const inner of Object.values(at)) look(inner);
  };
  look(told);
}

/**
 * Merges the Workers of the workflows. The merged Worker has an entrypoint and a class for each workflow, with the bindings of that
 * workflow.
 */
function workflowsTogether(told: Told, alike: Alike): void {
  const [first] = alike;
  const own = (name: string, index: number) => `${name}_${index}`;
  const classOf = (index: number) => (one: ObjectClass) => ({ ...one, className: own(one.className, index) });
  const bound = (bindings: Binding[] = [], index: number) =>
    bindings.map(({ name, durableObjectNamespace: objects, ...binding }) => ({
      ...binding,
      name: own(name, index),
      ...(objects && { durableObjectNamespace: classOf(index)(objects) }),
    }));
  const classes = alike.map(({ worker }, index) => {
    const names = worker.bindings?.map(({ name }) => `${name}: env.${own(name, index)}`).join(", ");
    const derived = (name: string) =>
      `export class ${own(name, index)} extends ${name} { constructor(ctx, env) { super(ctx, { ${names} }); } }`;
    return [derived("Engine"), derived("WorkflowBinding")].join("\n");
  });
  const code = [`import { Engine, WorkflowBinding } from "./workflows.mjs";`, ...classes].join("\n");
  const worker = {
    ...first.worker,
    modules: [{ name: "together.mjs", esModule: code }, ...(first.worker.modules ?? [])],
    durableObjectNamespaces: alike.flatMap(({ worker }, index) => worker.durableObjectNamespaces?.map(classOf(index)) ?? []),
    bindings: alike.flatMap(({ worker }, index) => bound(worker.bindings, index)),
  };
  replace(told, alike, worker, (asked, { name, index }) => {
    if (asked.entrypoint) Object.assign(asked, { name, entrypoint: own(asked.entrypoint, index) });
    if (asked.className) Object.assign(asked, { serviceName: name, className: own(asked.className, index) });
  });
}

/** Merges the Workers of the queues. The merged Worker reads the queue's name from the properties of a reference. */
function queuesTogether(told: Told, alike: Alike): void {
  const [{ worker: of }] = alike;
  const names = alike.map(({ worker }) => worker.bindings?.find((one) => one.name === NAMED)?.text);
  const worker = { ...of, bindings: of.bindings?.filter((one) => one.name !== NAMED) ?? [] };
  replace(told, alike, worker, (asked, { name, index }) =>
    Object.assign(asked, { name, props: { json: JSON.stringify({ [NAMED]: names[index] }) } }),
  );
}

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
