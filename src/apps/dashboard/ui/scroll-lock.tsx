/**
 * Stands in for react-remove-scroll, which Radix uses below its dialogs and menus and which writes a <style> element: the
 * pages' Content-Security-Policy allows none. Here the page is kept from scrolling by an attribute that base.css knows.
 */
import { type ElementType, type ReactNode, useEffect } from 'react'

let locks = 0

export interface RemoveScrollProps {
  as?: ElementType
  children: ReactNode
  allowPinchZoom?: boolean
  shards?: unknown
}

export function RemoveScroll({ as: Wrapper = 'div', allowPinchZoom, shards, ...rest }: RemoveScrollProps) {
  useEffect(() => {
    locks += 1
    document.documentElement.toggleAttribute('data-locked', true)
    return () => {
      locks -= 1
      document.documentElement.toggleAttribute('data-locked', locks > 0)
    }
  }, [])
  return <Wrapper {...rest} />
}
