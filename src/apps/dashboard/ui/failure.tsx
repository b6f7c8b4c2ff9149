/** Shows the error message of the API. For a form, also the errors that belong to no field. */
import { type ReactNode, useEffect, useRef } from 'react'
import { isObject } from '../../../contract/is-object.ts'
import { ApiFailure, UnreachableFailure } from '../../client/failure.ts'
import { Notice, Skeleton } from './layout.tsx'
import { Outside } from './text.tsx'

export type FieldErrors = Readonly<Record<string, string>>

/** By the API's path. Empty for other kinds of failures. */
export function fieldErrors(failure: unknown): FieldErrors {
  const errors = failure instanceof ApiFailure ? failure.body.errors : null
  if (!isObject(errors)) return {}
  return Object.fromEntries(Object.entries(errors).map(([path, text]) => [path, String(text)]))
}

export function failureText(failure: unknown): string {
  if (failure instanceof UnreachableFailure) {
    return 'pipectl is not responding. Nothing you typed is lost: try again when it responds.'
  }
  if (failure instanceof ApiFailure) {
    if (failure.status === 401) return 'Your session has ended. Sign in again; nothing you typed is lost.'
    const { message } = failure.body
    return typeof message === 'string' ? message : `The request failed (HTTP ${failure.status}).`
  }
  return failure instanceof Error ? failure.message : String(failure)
}

/** In place of data that is not loaded: a skeleton, or the reason why the data cannot be read. */
export function Loading({ error, lines }: { error: Error | null; lines?: number }) {
  return error === null ? <Skeleton lines={lines} /> : <FailureNotice failure={error} />
}

interface FailureNoticeProps {
  failure: unknown
  /** Paths of errors that their fields show. */
  shown?: readonly string[]
  /** A field shows the complete failure. */
  isAtField?: boolean
}

export function FailureNotice({ failure, shown = [], isAtField = false }: FailureNoticeProps) {
  if (failure === null || failure === undefined) return null
  const all = Object.entries(fieldErrors(failure))
  const elsewhere = all.filter(([path]) => !shown.includes(path))
  return (
    <Revealed failure={failure}>
      <Notice kind="bad">
        <Outside
          text={
            isAtField || (all.length > 0 && elsewhere.length === 0)
              ? 'Nothing was saved. Correct the marked fields.'
              : failureText(failure)
          }
        />
        {elsewhere.length === 0 ? null : (
          <ul>
            {elsewhere.map(([path, text]) => (
              <li key={path}>
                <Outside text={path === '' ? text : `${path}: ${text}`} />
              </li>
            ))}
          </ul>
        )}
      </Notice>
    </Revealed>
  )
}

/** The pressed button can be far away, so the first field with an error, or else the notice, is focused and scrolled into view. */
export function Revealed({ failure, children }: { failure: unknown; children: ReactNode }) {
  const notice = useRef<HTMLDivElement>(null)
  // biome-ignore lint/correctness/useExhaustiveDependencies: each failure is revealed once
  useEffect(() => reveal(notice.current), [failure])
  return (
    <div ref={notice} tabIndex={-1} data-failure>
      {children}
    </div>
  )
}

/** Moves to the first field with an error, or else to the notice, of the form that contains the element. */
export function reveal(element: HTMLElement | null): void {
  const form = element?.closest('form, [role="dialog"], main')
  const target =
    form?.querySelector<HTMLElement>('[aria-invalid="true"]') ??
    form?.querySelector<HTMLElement>('[data-failure]')
  for (let fold = target?.closest('details'); fold; fold = fold.parentElement?.closest('details'))
    fold.open = true
  target?.scrollIntoView({ block: 'center' })
  target?.focus({ preventScroll: true })
}
