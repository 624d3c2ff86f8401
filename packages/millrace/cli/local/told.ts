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

/** A binding that a wrapped binding contains. A module provides the wrapped binding. */
interface Inner {
  name: string;
  text?: string;
  service?: Asked;
  durableObjectNamespace?: ObjectClass;
}

export interface ObjectClass {
  className: string;
}

/** A reference from a binding to a service. It names an entrypoint or a class of the service, and may have properties. */
export interface Asked {
  name?: unknown;
  serviceName?: unknown;
  entrypoint?: string;
  className?: string;
  props?: { json: string };
}

/** The binding in which miniflare passes the name of a queue. */
export const NAMED = "MINIFLARE_NAMESPACE";
