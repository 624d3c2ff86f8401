import { get } from "./api.ts";
import { useData } from "./use-data.ts";

/** What the deployment is made of; what instances did meanwhile is read when somebody looks again. */
export function useCatalog() {
  return useData(
    () => get("/v1/catalog"),
    [],
    () => false,
  );
}
