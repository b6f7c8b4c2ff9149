/**
 * Keys one at a time. Quick typing and pasting arrive as one piece of input; each stroke of it must see the state that
 * the one before left, so they are handled one after the other, each after the screen has caught up.
 */
import { type Key, useInput } from 'ink'
import { useEffect, useLayoutEffect, useRef, useState } from 'react'

/** A character, or the name of a key. */
export type Stroke = string

export function useStrokes(onStroke: (stroke: Stroke) => void): void {
  const handler = useRef(onStroke)
  const waiting = useRef<Stroke[]>([])
  // A stroke was handled and what it changed is not drawn yet: the next one waits.
  const isDrawing = useRef(false)
  const [, drawAgain] = useState(0)

  const next = () => {
    const stroke = waiting.current.shift()
    if (stroke === undefined) return
    isDrawing.current = true
    handler.current(stroke)
    // Batched with what the stroke changed: the effect below runs once both are drawn.
    drawAgain((count) => count + 1)
  }
  // In the drawing itself, not some time after it: a key that comes at once must find the newest state.
  useLayoutEffect(() => {
    handler.current = onStroke
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
    waiting.current.push(...strokesOf(input, key))
    if (!isDrawing.current) next()
  })
}

export function strokesOf(input: string, key: Partial<Key>): Stroke[] {
  if (key.ctrl || key.meta) return key.escape ? ['escape'] : []
  if (key.escape) return ['escape']
  if (key.return) return ['return']
  if (key.backspace || key.delete) return ['erase']
  if (key.upArrow) return ['up']
  if (key.downArrow) return ['down']
  if (key.leftArrow) return ['left']
  if (key.rightArrow) return ['right']
  if (key.pageUp) return ['pageUp']
  if (key.pageDown) return ['pageDown']
  return [...input].flatMap((character) => {
    if (character === '\r' || character === '\n') return ['return']
    if (character === '\x1b') return ['escape']
    if (character === '\x7f' || character === '\b') return ['erase']
    return character < ' ' ? [] : [character]
  })
}
