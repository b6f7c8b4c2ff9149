/** The theme: light, dark, or that of the system. Stored in this browser. */
import { useState } from 'react'

export type Theme = 'system' | 'light' | 'dark'
const key = 'pipectl-theme'

export function applyTheme(theme: Theme = storedTheme()): void {
  if (theme === 'system') document.documentElement.removeAttribute('data-theme')
  else document.documentElement.setAttribute('data-theme', theme)
}

export function useTheme(): [Theme, (theme: Theme) => void] {
  const [theme, setTheme] = useState(storedTheme)
  return [
    theme,
    (next) => {
      localStorage.setItem(key, next)
      applyTheme(next)
      setTheme(next)
    },
  ]
}

function storedTheme(): Theme {
  const stored = localStorage.getItem(key)
  return stored === 'light' || stored === 'dark' ? stored : 'system'
}
