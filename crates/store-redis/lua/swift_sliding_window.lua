-- Counts requests, and checks the result, as for a fixed window. Counts that do not fit into the
-- integer are left over.
local function swift_sliding_window(rule, first, last)
  local limit, window, scale, cost = rule[2], rule[3], rule[4], rule[6]
  local most = min(limit, scale - 1)
  local final = floor(now / window) * window + 2 * window
  local left, square, one = final - window - now, scale * scale, format('%.0f', cost)
  local none = final / window * square
  for key = first, last do
    local name, sum, done = KEYS[key], cost * (times[key] or 1), false
    local number = sum <= most and pcall('INCRBY', name, sum == cost and one or sum)
    if type(number) == 'number' then
      local before = number - sum
      local current, previous = before % scale, 0
      if before >= none then
        previous = (before - none - current) / scale
      elseif before >= none - square then
        previous, current = current, 0
      else
        current = 0
      end
      local room, share = limit - current - sum, previous * left
      -- One of ours, neither from the future nor overflowed.
      done = (before == 0 or before >= square) and previous < scale and current + sum < scale
        and share <= LARGEST
      -- Past the largest number the right side is not exact, but exact enough.
      local fits = room >= 0 and share <= room * window
      done = done and (fits or sum == cost)
      if not (done and fits) then
        call('INCRBY', name, -sum)
      elseif before < none then
        keep(name, true, format('%.0f', none + previous * scale + sum), final - now)
      end
      found[key] = before > 0 and before
    end
    if not done then
      look(key, key)
      leave(key, rule)
    end
  end
  return true
end
