/** Keys of the whole application: Ctrl K opens the palette, / searches, g o and g p open pages, ? shows all keys. */
import { lazy, Suspense, useEffect, useState } from 'react'
import { useLocation } from 'wouter'
import { Guard } from './guard.tsx'
import { allPages, paletteEvent } from './pages.ts'

const KeyboardHelp = lazy(() =>
  import('./keyboard-help.tsx').then((module) => ({ default: module.KeyboardHelp })),
)

const Palette = lazy(() => import('./palette.tsx').then((module) => ({ default: module.Palette })))

/** The time after `g` in which the second key counts. */
const chordMs = 1_500

type Open = 'help' | 'palette' | null

export function Keyboard() {
  const [, go] = useLocation()
  const [open, setOpen] = useState<Open>(null)
  useEffect(() => {
    const onKey = shortcuts(go, setOpen)
    const onPalette = () => setOpen('palette')
    addEventListener('keydown', onKey)
    addEventListener(paletteEvent, onPalette)
    return () => {
      removeEventListener('keydown', onKey)
      removeEventListener(paletteEvent, onPalette)
    }
  }, [go])
  if (open === null) return null
  const Content = open === 'help' ? KeyboardHelp : Palette
  return (
    <Guard>
      <Suspense fallback={null}>
        <Content onClose={() => setOpen(null)} />
      </Suspense>
    </Guard>
  )
}

/** Handles the keys pressed outside dialogs and fields, and those of the palette everywhere except in other dialogs. */
function shortcuts(go: (to: string) => void, setOpen: (open: Open) => void): (event: KeyboardEvent) => void {
  let chordAt = Number.NEGATIVE_INFINITY
  return (event: KeyboardEvent) => {
    if (opensPalette(event)) {
      event.preventDefault()
      return setOpen('palette')
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
    const isChord = event.timeStamp - chordAt < chordMs
    const page = allPages.find(([, , key]) => key === event.key)?.[0]
    chordAt = Number.NEGATIVE_INFINITY
    if (isChord && page !== undefined) go(page)
    else if (event.key === 'g') chordAt = event.timeStamp
    else if (event.key === '?') setOpen('help')
    else if (event.key === '/') search(go)
    else return
    event.preventDefault()
  }
}

function opensPalette({ key, ctrlKey, metaKey, altKey, shiftKey }: KeyboardEvent): boolean {
  return key.toLowerCase() === 'k' && ctrlKey !== metaKey && !altKey && !shiftKey && !isInDialog()
}

function isInDialog(): boolean {
  return document.querySelector('[role="dialog"]') !== null
}

/** While a dialog is open, keys must not affect the page behind it. */
function isTyping(target: EventTarget | null): boolean {
  if (isInDialog()) return true
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
