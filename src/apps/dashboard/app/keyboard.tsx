/** Keys of the whole application: / searches, g o and g p open pages, ? shows all keys. */
import { lazy, Suspense, useEffect, useState } from 'react'
import { useLocation } from 'wouter'
import { Guard } from './guard.tsx'

const KeyboardHelp = lazy(() =>
  import('./keyboard-help.tsx').then((module) => ({ default: module.KeyboardHelp })),
)

const places: Record<string, string> = {
  o: '/',
  p: '/pipes',
  m: '/messages',
  k: '/keys',
  u: '/users',
  s: '/service',
  r: '/reference',
}
/** The time after `g` in which the second key counts. */
const chordMs = 1_500

export function Keyboard() {
  const [, go] = useLocation()
  const [isHelpOpen, setHelpOpen] = useState(false)
  useEffect(() => {
    const onKey = shortcuts(go, () => setHelpOpen(true))
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [go])
  if (!isHelpOpen) return null
  return (
    <Guard>
      <Suspense fallback={null}>
        <KeyboardHelp onClose={() => setHelpOpen(false)} />
      </Suspense>
    </Guard>
  )
}

/** Handles the keys pressed outside dialogs and fields. */
function shortcuts(go: (to: string) => void, showHelp: () => void): (event: KeyboardEvent) => void {
  let chordAt = Number.NEGATIVE_INFINITY
  return (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
    const isChord = event.timeStamp - chordAt < chordMs
    const place = places[event.key]
    chordAt = Number.NEGATIVE_INFINITY
    if (isChord && place !== undefined) go(place)
    else if (event.key === 'g') chordAt = event.timeStamp
    else if (event.key === '?') showHelp()
    else if (event.key === '/') search(go)
    else return
    event.preventDefault()
  }
}

/** While a dialog is open, keys must not affect the page behind it. */
function isTyping(target: EventTarget | null): boolean {
  if (document.querySelector('[role="dialog"]') !== null) return true
  return target instanceof HTMLElement && target.closest('input, textarea, select, [role="menu"]') !== null
}

function search(go: (to: string) => void): void {
  const field = document.querySelector<HTMLInputElement>('input[type="search"]')
  if (field === null) go('/pipes?search')
  else {
    field.focus()
    field.select()
  }
}
