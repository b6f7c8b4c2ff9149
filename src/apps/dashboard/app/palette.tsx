/**
 * The command palette: type a few characters, press Enter. It finds pages, pipes, destinations and API keys, and offers
 * actions. Loaded when it is first opened.
 */
import { useDeferredValue, useEffect, useId, useMemo, useRef, useState } from 'react'
import { useLocation } from 'wouter'
import type { ApiKey } from '../../../contract/api-key.ts'
import type { Overview } from '../../../contract/overview.ts'
import { counted } from '../../../platform/quantities.ts'
import { bestMatches } from '../../client/fuzzy.ts'
import { canRetry } from '../../client/lane-causes.ts'
import { troubledLanes } from '../../client/overview.ts'
import { fullName } from '../../client/workspace.ts'
import { runOnLanes } from '../data/lane-batch.ts'
import { useOverview } from '../data/overview.ts'
import { useKeys } from '../data/queries.ts'
import { useMayChange } from '../data/session-context.ts'
import { signOut } from '../data/sign-out.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Outside } from '../ui/text.tsx'
import { allPages } from './pages.ts'
import styles from './palette.module.css'
import { setTheme, themes } from './theme.ts'

interface Item {
  id: string
  kind: 'Page' | 'Pipe' | 'Destination' | 'API key' | 'Action'
  name: string
  /** More words that find it. */
  also?: string
  /** An address, or an action. */
  run: string | (() => void)
}

/** More results are not read: typing one more character is faster. */
const mostShown = 12

export function Palette({ onClose }: { onClose: () => void }) {
  const [, go] = useLocation()
  const [typed, setTyped] = useState('')
  const [at, setAt] = useState(0)
  const id = useId()
  const list = useRef<HTMLDivElement>(null)
  const items = useItems()
  const wanted = useDeferredValue(typed)
  const shown = useMemo(
    () => bestMatches(items, wanted, ({ name, kind, also = '' }) => `${name} ${kind} ${also}`, mostShown),
    [items, wanted],
  )
  const chosen = shown[Math.min(at, shown.length - 1)]
  const choose = (item: Item | undefined) => {
    if (item === undefined) return
    onClose()
    if (typeof item.run === 'string') go(item.run)
    else item.run()
  }
  useEffect(() => {
    if (chosen !== undefined)
      list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' })
  }, [chosen])
  return (
    <Dialog title="Search or jump to" open onClose={onClose} palette>
      <input
        className={styles.input}
        type="text"
        role="combobox"
        aria-label="Search or jump to"
        aria-expanded="true"
        aria-controls={`${id}-list`}
        aria-activedescendant={chosen === undefined ? undefined : `${id}-${chosen.id}`}
        aria-autocomplete="list"
        autoComplete="off"
        spellCheck={false}
        placeholder="Page, pipe, destination, key or action"
        data-first-focus
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value)
          setAt(0)
        }}
        onKeyDown={(event) => {
          const last = shown.length - 1
          if (event.key === 'ArrowDown') setAt(at >= last ? 0 : at + 1)
          else if (event.key === 'ArrowUp') setAt(at <= 0 ? Math.max(0, last) : Math.min(at, last) - 1)
          else if (event.key === 'Enter' && !event.nativeEvent.isComposing) choose(chosen)
          else return
          event.preventDefault()
        }}
      />
      <div className={styles.list} id={`${id}-list`} role="listbox" aria-label="Results" ref={list}>
        {shown.map((item, index) => (
          // The keys are those of the field above, which keeps the focus.
          // biome-ignore lint/a11y/useKeyWithClickEvents: see above
          // biome-ignore lint/a11y/useFocusableInteractive: see above
          <div
            key={item.id}
            id={`${id}-${item.id}`}
            role="option"
            aria-selected={item === chosen}
            className={styles.item}
            onClick={() => choose(item)}
            onPointerMove={() => setAt(index)}
          >
            <span className={styles.name}>
              <Outside text={item.name} />
            </span>
            <span className={styles.kind}>{item.kind}</span>
          </div>
        ))}
      </div>
      {shown.length === 0 ? (
        <p role="status" className={styles.none}>
          Nothing matches.
        </p>
      ) : null}
      <p className={styles.hint} aria-hidden="true">
        <kbd>↑</kbd> <kbd>↓</kbd> to choose, <kbd>Enter</kbd> to open, <kbd>Esc</kbd> to close
      </p>
    </Dialog>
  )
}

/** Everything that can be found. What is needed most comes first while nothing is typed. */
function useItems(): Item[] {
  const { data: overview } = useOverview()
  const { data: keys } = useKeys()
  const mayChange = useMayChange()
  const pipes = overview?.pipes
  // With the overview everything is a new object every two seconds; the pipes that did not change are not.
  return useMemo(
    () => [
      ...actions(overview, mayChange),
      ...pageItems,
      ...(pipes ?? []).flatMap(pipeItems),
      ...(keys ?? []).map(keyItem),
      ...themes.map(([theme, name]): Item => {
        return { id: `theme-${theme}`, kind: 'Action', name, run: () => setTheme(theme) }
      }),
      { id: 'sign-out', kind: 'Action', name: 'Sign out', also: 'log out', run: () => void signOut() },
    ],
    [overview, pipes, keys, mayChange],
  )
}

const pageItems: Item[] = [
  ...allPages.map(([to, name]): Item => ({ id: `page${to}`, kind: 'Page', name, run: to })),
  { id: 'guides', kind: 'Page', name: 'Guides', also: 'docs help', run: () => location.assign('/docs/') },
]

function actions(overview: Overview | undefined, mayChange: boolean): Item[] {
  if (!mayChange) return []
  const failing = overview === undefined ? [] : troubledLanes(overview).filter(canRetry)
  return [
    ...(failing.length === 0
      ? []
      : [
          {
            id: 'retry',
            kind: 'Action' as const,
            name: `Retry all failing (${counted(failing.length, 'lane')})`,
            run: () => void runOnLanes('retry', failing),
          },
        ]),
    { id: 'new-pipe', kind: 'Action', name: 'New pipe', also: 'create add', run: '/pipes/new' },
  ]
}

function pipeItems(pipe: Overview['pipes'][number]): Item[] {
  const to = `/pipes/${pipe.pipe_id}`
  return [
    { id: pipe.pipe_id, kind: 'Pipe', name: pipe.pipe_name, also: pipe.pipe_description, run: to },
    ...pipe.lanes.map((destination): Item => {
      return {
        id: destination.destination_id,
        kind: 'Destination',
        name: fullName(pipe, destination),
        also: destination.destination_target,
        run: `${to}/destinations/${destination.destination_id}`,
      }
    }),
    {
      id: `new-${pipe.pipe_id}`,
      kind: 'Action',
      name: `New destination in ${pipe.pipe_name}`,
      also: 'add create',
      run: `${to}/destinations/new`,
    },
  ]
}

function keyItem(key: ApiKey): Item {
  return {
    id: key.api_key_id,
    kind: 'API key',
    name: key.api_key_name,
    also: key.api_key_prefix,
    run: `/keys?${new URLSearchParams({ q: key.api_key_name })}`,
  }
}
