/**
 * Handles keys one at a time. Fast typing and pasting arrive as one input. Each key must see the state after the
 * previous one, so a key is handled only when the screen has been updated.
 */
import { type Key, useInput } from 'ink'
import { useEffect, useLayoutEffect, useRef, useState } from 'react'

/** A character, or the name of a key. */
export type KeyPress = string

export function useKeys(onKeyPress: (stroke: KeyPress) => void): void {
  const handler = useRef(onKeyPress)
  const waiting = useRef<KeyPress[]>([])
  // A key was handled but its change is not drawn yet. The next key waits.
  const isDrawing = useRef(false)
  const [, drawAgain] = useState(0)

  const next = () => {
    const pressed = waiting.current.shift()
    if (pressed === undefined) return
    isDrawing.current = true
    handler.current(pressed)
    // React batches this with the changes of the key. The effect below runs when both are drawn.
    drawAgain((count) => count + 1)
  }
  // A layout effect runs during drawing: a key that arrives immediately must see the newest state.
  useLayoutEffect(() => {
    handler.current = onKeyPress
    if (!isDrawing.current) return
    isDrawing.current = false
    setImmediate(() => isDrawing.current || next())
  })
  useEffect(
    () => () => {
      waiting.current = []
    },
    [],
  )
  useInput((input, key) => {
    waiting.current.push(...keyPressesOf(input, key))
    if (!isDrawing.current) next()
  })
}

const namedKeys = [
  ['escape', 'escape'],
  ['return', 'return'],
  ['backspace', 'erase'],
  ['delete', 'erase'],
  ['upArrow', 'up'],
  ['downArrow', 'down'],
  ['leftArrow', 'left'],
  ['rightArrow', 'right'],
  ['pageUp', 'pageUp'],
  ['pageDown', 'pageDown'],
  ['home', 'home'],
  ['end', 'end'],
] as const

export function keyPressesOf(input: string, key: Partial<Key>): KeyPress[] {
  if (key.ctrl || key.meta) return key.escape ? ['escape'] : []
  const named = namedKeys.find(([name]) => key[name])
  if (named !== undefined) return [named[1]]
  return [...input].flatMap((character) => {
    if (character === '\r' || character === '\n') return ['return']
    if (character === '\x1b') return ['escape']
    if (character === '\x7f' || character === '\b') return ['erase']
    return character < ' ' ? [] : [character]
  })
}

/** How far each key moves the selection in a list of this number of rows. */
export function movesIn(rows: number): Readonly<Record<KeyPress, number>> {
  return {
    up: -1,
    k: -1,
    down: 1,
    j: 1,
    pageUp: -10,
    pageDown: 10,
    home: -rows,
    g: -rows,
    end: rows,
    G: rows,
  }
}
