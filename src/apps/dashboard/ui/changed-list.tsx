/** The settings that another user has changed meanwhile, as they are stored now. */
import type { Difference } from '../../client/differences.ts'
import { Outside } from './text.tsx'

export function ChangedList({ changed }: { changed: readonly Difference[] }) {
  return (
    <ul>
      {changed.map(({ path, before, now }) => (
        <li key={path}>
          <Outside text={`${path}: ${now ?? 'removed'} (it was ${before ?? 'not set'})`} />
        </li>
      ))}
    </ul>
  )
}
