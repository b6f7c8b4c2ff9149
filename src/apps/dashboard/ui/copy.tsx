/** A button that copies a text and confirms it for two seconds. */
import { type ReactNode, useEffect, useState } from 'react'
import { Button } from './controls.tsx'

const shownMs = 2_000

/** `icon`: shown instead of the label, in a row of a table. The text can be copied elsewhere with the keyboard. */
export function Copy({
  text,
  what,
  label = 'Copy',
  icon,
}: {
  text: string
  what: string
  label?: string
  icon?: ReactNode
}) {
  const [outcome, setOutcome] = useState<'copied' | 'failed' | null>(null)
  useEffect(() => {
    if (outcome === null) return
    const timer = setTimeout(() => setOutcome(null), shownMs)
    return () => clearTimeout(timer)
  }, [outcome])
  const words = { copied: 'Copied', failed: 'Copying failed: select the text' }
  return (
    <Button
      look="plain"
      aria-label={outcome === null ? `${label}: ${what}` : undefined}
      tabIndex={icon === undefined ? undefined : -1}
      onClick={() =>
        copyText(text).then(
          () => setOutcome('copied'),
          () => setOutcome('failed'),
        )
      }
    >
      <span aria-live="polite">{outcome === null ? (icon ?? label) : words[outcome]}</span>
    </Button>
  )
}

/** On plain http, browsers have a clipboard only on loopback. Elsewhere the deprecated command is used. */
async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text)
  const area = document.createElement('textarea')
  area.value = text
  area.setAttribute('aria-hidden', 'true')
  document.body.append(area)
  area.select()
  const isDone = document.execCommand('copy')
  area.remove()
  if (!isDone) throw new Error('the browser does not let a page copy')
}
