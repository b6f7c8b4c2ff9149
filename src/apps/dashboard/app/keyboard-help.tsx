/** The keys of the whole application. */
import { Dialog } from '../ui/dialog.tsx'
import { Facts } from '../ui/layout.tsx'
import { allPages, paletteKeys } from './pages.ts'

export function KeyboardHelp({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard" open onClose={onClose}>
      <Facts
        facts={[
          [paletteKeys, 'go to any page, pipe, destination or key, or do something'],
          ['/', 'search this page, or all pipes'],
          ...allPages.flatMap(([, name, key]): [string, string][] =>
            key === '' ? [] : [[`g ${key}`, name]],
          ),
          ['?', 'this help'],
          ['Esc', 'close a dialog'],
        ]}
      />
    </Dialog>
  )
}
