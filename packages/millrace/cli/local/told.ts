/** What a runtime is told, as far as it is used here. */
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

/** What a binding that is a module's own is made of. */
interface Inner {
  name: string;
  text?: string;
  service?: Asked;
  durableObjectNamespace?: ObjectClass;
}

export interface ObjectClass {
  className: string;
}

/** Who is asked for: a service, one of its entrypoints or classes, and what it is told of who asks. */
export interface Asked {
  name?: unknown;
  serviceName?: unknown;
  entrypoint?: string;
  className?: string;
  props?: { json: string };
}

/** As what a Worker of the package hears which of its objects is asked for. */
export const NAMED = "MINIFLARE_NAMESPACE";
