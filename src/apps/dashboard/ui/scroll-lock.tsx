/**
 * Replaces react-remove-scroll, which Radix uses in dialogs and menus. That package writes a <style> element, which
 * the Content-Security-Policy forbids. Here an attribute, with a rule in base.css, prevents scrolling.
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
