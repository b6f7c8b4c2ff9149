/**
 * State of a page that is part of the address, so that a reload, a link and the browser's back button keep it: search,
 * filters, sort order, page of a list.
 */
import { useCallback } from 'react'
import { useLocation, useSearch } from 'wouter'

/** Null or an empty text removes a parameter. */
export type Params = Readonly<Record<string, string | null>>

export function useParam(name: string): string {
  return new URLSearchParams(useSearch()).get(name) ?? ''
}

/**
 * Returns a function that changes parameters of the address and keeps the others. `isStep`: the browser's back button
 * returns to the state before; otherwise the present entry of the history is replaced.
 */
export function useSetParams(): (changed: Params, isStep?: boolean) => void {
  const [place, go] = useLocation()
  return useCallback(
    (changed, isStep = false) => {
      const params = new URLSearchParams(location.search)
      for (const [name, value] of Object.entries(changed)) {
        if (value === null || value === '') params.delete(name)
        else params.set(name, value)
      }
      const search = params.toString()
      if (search !== location.search.replace(/^\?/, ''))
        go(search === '' ? place : `${place}?${search}`, { replace: !isStep })
    },
    [place, go],
  )
}
