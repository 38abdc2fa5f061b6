-- One request of a counter that is new, or small and not from the future.
local function swift_sliding_window(rule, first, last)
  local limit, window, cost = rule[2], rule[3], rule[6]
  local newest = floor(now / window) * window + 2 * window
  look(first, last)
  for key = first, last do
    local raw, done = found[key], false
    if (not raw or #raw == 11) and (times[key] or 1) == 1 then
      local final, previous, current = 0, 0, 0
      if raw then final, previous, current = parse('>I7I2I2', raw) end
      local left, moved = final - now, false
      if left <= window then
        previous, current, moved = left > 0 and current or 0, 0, true
        final = left > 0 and final + window or newest
        left = final - now
      end
      current = current + cost
      local room, share = limit - current, previous * (left - window)
      if left <= 2 * window and current < 65536 and share <= LARGEST then
        -- Past the largest number the right side is not exact, and exact enough.
        if room < 0 or share > room * window then
          done = true
        elseif moved then
          done = keep(KEYS[key], raw, pack('>I7I2I2', final, previous, current), left)
        else
          done = call('SETRANGE', KEYS[key], '9', pack('>I2', current))
        end
      end
    end
    if not done then leave(key, rule) end
  end
  return true
end
