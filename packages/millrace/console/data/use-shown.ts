import { useEffect, useRef } from "preact/hooks";

/** Whether the component is still shown, for what comes after an answer: people go elsewhere meanwhile. */
export function useShown(): { readonly current: boolean } {
  const isShown = useRef(true);
  useEffect(() => {
    isShown.current = true;
    return () => {
      isShown.current = false;
    };
  }, []);
  return isShown;
}
