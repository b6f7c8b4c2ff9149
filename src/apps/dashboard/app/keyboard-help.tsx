/** The keys of the whole application. */
import { Dialog } from '../ui/dialog.tsx'
import { Facts } from '../ui/layout.tsx'

export function KeyboardHelp({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard" open onClose={onClose}>
      <Facts
        facts={[
          ['/', 'search pipes and lanes'],
          ['g o', 'overview'],
          ['g p', 'pipes'],
          ['g m', 'messages'],
          ['g k', 'API keys'],
          ['g u', 'users'],
          ['g s', 'service'],
          ['g r', 'API reference'],
          ['?', 'this help'],
          ['Esc', 'close a dialog'],
        ]}
      />
    </Dialog>
  )
}
