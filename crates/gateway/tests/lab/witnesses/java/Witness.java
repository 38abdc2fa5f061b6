import jakarta.servlet.http.Cookie;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.File;
import java.io.IOException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;

/** A servlet in Tomcat. */
public class Witness extends HttpServlet {
    /** As Spring Security does. */
    private static final Pattern BEARER =
        Pattern.compile("^Bearer (?<token>[a-zA-Z0-9-._~+/]+=*)$", Pattern.CASE_INSENSITIVE);

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
        request.getInputStream().readAllBytes();
        String route = request.getServletPath();
        if (request.getPathInfo() != null) {
            route += " " + request.getPathInfo();
        }
        // Trailers count as fields to whoever merges them.
        String key = request.getTrailerFields().getOrDefault("x-api-key", request.getHeader("x-api-key"));
        response.setContentType("application/json;charset=UTF-8");
        response.getWriter().print("{\"route\":" + quoted(route)
            + ",\"method\":" + quoted(request.getMethod())
            + ",\"key\":" + quoted(key)
            + ",\"bearer\":" + quoted(bearer(request.getHeader("authorization")))
            + ",\"user\":" + quoted(request.getParameter("user"))
            + ",\"session\":" + quoted(session(request.getCookies()))
            + ",\"host\":" + quoted(request.getServerName()) + "}");
    }

    private static String bearer(String field) {
        Matcher matcher = BEARER.matcher(field == null ? "" : field);
        return matcher.matches() ? matcher.group("token") : null;
    }

    private static String session(Cookie[] cookies) {
        for (Cookie cookie : cookies == null ? new Cookie[0] : cookies) {
            if (cookie.getName().equals("sid")) {
                return cookie.getValue();
            }
        }
        return null;
    }

    private static String quoted(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder json = new StringBuilder("\"");
        for (char letter : text.toCharArray()) {
            boolean isPlain = letter >= ' ' && letter < 127 && letter != '"' && letter != '\\';
            json.append(isPlain ? String.valueOf(letter) : String.format("\\u%04x", (int) letter));
        }
        return json.append('"').toString();
    }

    public static void main(String[] arguments) throws Exception {
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(new File("tomcat").getAbsolutePath());
        tomcat.setHostname("127.0.0.1");
        tomcat.setPort(Integer.parseInt(arguments[0]));
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        Context context = tomcat.addContext("", null);
        Tomcat.addServlet(context, "witness", new Witness());
        for (String path : new String[] {"/login", "/v1/mail:send", "/users/*", "/admin/*"}) {
            context.addServletMappingDecoded(path, "witness");
        }
        tomcat.start();
        tomcat.getServer().await();
    }
}
