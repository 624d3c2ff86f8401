export interface Told {
  services: Service[];
  extensions?: { modules: { name: string; internal: boolean; esModule: string }[] }[];
}

export interface Service {
  name: string;
  worker?: Worker;
}

export interface Worker {
  modules?: { name: string; esModule?: string }[];
  bindings?: Binding[];
  durableObjectNamespaces?: ObjectClass[];
}

export interface Binding {
  name: string;
  text?: string;
  durableObjectNamespace?: ObjectClass;
  wrapped?: { moduleName: string; innerBindings: Inner[] };
}

/** The bindings within a binding that a module provides. */
interface Inner {
  name: string;
  text?: string;
  service?: Asked;
  durableObjectNamespace?: ObjectClass;
}

export interface ObjectClass {
  className: string;
}

/** A reference to a service, with its entrypoint or class, and its properties. */
export interface Asked {
  name?: unknown;
  serviceName?: unknown;
  entrypoint?: string;
  className?: string;
  props?: { json: string };
}

/** The binding in which miniflare passes the name of a Worker's object. */
export const NAMED = "MINIFLARE_NAMESPACE";
